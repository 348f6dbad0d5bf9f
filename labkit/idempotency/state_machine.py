"""Which status may follow which."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_name


class TransitionRefused(RuntimeError):
    """What has this status cannot get that one.

    Parameters
    ----------
    id: what it is about.
    present: the status that it has.
    wanted: the status that it was to get.
    """

    def __init__(self, id: str, present: str, wanted: str) -> None:
        super().__init__(f"{id!r} is {present!r}, and that never becomes {wanted!r}")
        self.id, self.present, self.wanted = id, present, wanted


class UnknownId(LookupError):
    """There is no status under this id: it was never created, or the store has lost it."""


@dataclass(frozen=True)
class StateMachine:
    """The statuses of something, and which may follow which.

    Parameters
    ----------
    edges: pairs of a status and one that may follow it. A status that none follows is terminal.
    """

    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not self.edges:
            raise ValueError("a state machine has edges: pairs of a status and one that may follow it")
        for before, after in self.edges:
            if check_name("a status", before) == check_name("a status", after):
                raise ValueError(f"an edge leads from one status to another, not from {before!r} to itself")

    @property
    def statuses(self) -> frozenset[str]:
        """All statuses."""
        return frozenset(status for edge in self.edges for status in edge)

    @property
    def terminal(self) -> frozenset[str]:
        """The statuses that are never left."""
        return self.statuses - {before for before, _ in self.edges}

    def check(self, status: str) -> None:
        """`ValueError` for what is no status."""
        if status not in self.statuses:
            raise ValueError(f"{status!r} is no status; there are {', '.join(sorted(self.statuses))}")

    def before(self, status: str) -> tuple[str, ...]:
        """The statuses that this one may follow."""
        self.check(status)
        return tuple(sorted({before for before, after in self.edges if after == status}))


JOB = StateMachine(
    (
        ("pending", "in-progress"),
        ("in-progress", "pending"),
        ("in-progress", "completed"),
        ("in-progress", "failed"),
    )
)
