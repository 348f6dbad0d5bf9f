"""What must hold: a name in the learner's words, and a check that reads stores without a step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabError, PropertyError, ScenarioError
from labkit.source import raising_line


@dataclass(frozen=True, slots=True)
class Property:
    """One thing that must hold.

    Parameters
    ----------
    name: what must hold, in plain words.
    check: true when it does. With `remember` it is called with the observer's value before and after a step.
    kind: `always` (after each step) or `at_end` (when nothing but faults could still happen).
    remember: an observer whose value before a step the check needs, or None.
    """

    name: str
    check: Callable[..., object]
    kind: str
    remember: Callable[[], Any] | None = None

    def holds(self, *values: Any) -> bool:
        """The check's answer; `PropertyError` when it raises or answers neither yes nor no."""
        answer = self._call(self.check, *values)
        if answer is None:
            raise PropertyError(f"property {self.name!r} answered None: does its check forget to return?")
        if isinstance(answer, (Generator, Coroutine)):
            what = "a generator: put all(...) or any(...) around it" if isinstance(answer, Generator) else "a coroutine"
            answer.close()
            raise PropertyError(f"property {self.name!r} answered {what}; Python takes it for true, whatever is in it")
        return bool(answer)

    def observe(self) -> Any:
        """The observer's value now."""
        assert self.remember is not None
        return self._call(self.remember)

    def _call(self, function: Callable[..., Any], *values: Any) -> Any:
        try:
            return function(*values)
        except LabError:
            raise
        except Exception as error:
            where = raising_line(error.__traceback__)
            message = f"property {self.name!r} raised {type(error).__name__}: {error}"
            raise PropertyError(message + (f", at {where}" if where else "")) from error


def check_stated(name: str, properties: Iterable[str]) -> None:
    """Raise `ScenarioError` when a scenario that states these properties states none of that name."""
    stated = list(properties)
    if name not in stated:
        raise ScenarioError(f"the scenario states no property {name!r}; it states {stated}")
