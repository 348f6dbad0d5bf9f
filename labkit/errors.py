"""Everything the lab says when it cannot go on: what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable

# Told of every error that the lab raises: a worker's `except Exception` must not hide one from its search.
witness: Callable[[LabError], None] = lambda error: None  # noqa: E731


class LabError(Exception):
    """The base of every error that the lab itself raises."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        witness(self)

    @property
    def sentence(self) -> str:
        """What it says, with a full stop unless it ends with one or with a question mark."""
        said = str(self)
        return said if said.endswith((".", "?")) else f"{said}."

    def __reduce__(self) -> tuple[Callable[..., LabError], tuple[object, ...]]:
        return _from_another_process, (type(self), *self.args)


def _from_another_process(kind: type[LabError], *args: object) -> LabError:
    """An error as it was raised there; whatever runs here meanwhile has nothing to do with it."""
    return kind.__new__(kind, *args)


class ScenarioError(LabError):
    """The scenario builds a world that the lab cannot run."""


class ScheduleError(LabError):
    """A schedule cannot be read, or does not fit the scenario."""


class PropertyError(LabError):
    """A property raised, wrote to a store, or gave no yes-or-no answer."""


class Nondeterminism(LabError):
    """A worker took another step than it took before with the same replies."""


class WorkerStuck(LabError):
    """A worker used real time without taking a step: it computes for ever, or waits for real."""


class Unsupported(LabError):
    """The lab does not model this, and says so instead of guessing."""
