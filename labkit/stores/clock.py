"""The clock as a store: to read it, to sleep and to wait for another thread are steps like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.stores.base import FOR_EVER, Description, Outcome
from labkit.words import in_seconds


class ClockWasRead(BaseException):  # not an Exception: a property that catches those must not catch it
    """A search without absolute time met a step that reads the clock as a value, and must start again with it."""


class Clock:
    """The lab's clock; a state is the time in microseconds since it started.

    Parameters
    ----------
    absolute: whether the time belongs to the state. A search leaves it out until a step reads it, because
        states that differ in nothing but the time then are one.
    """

    start = 0

    def __init__(self, absolute: bool) -> None:
        self.absolute = absolute

    def apply(self, state: int, request: tuple[Any, ...], now: int) -> Outcome:
        if request[0] == "sleep":
            return Outcome(None, state)  # the step is the waking up; until then the worker is not enabled
        if request[0] == "wait":
            return Outcome(False, state)  # in vain; whether it is not, the worker's own memory tells
        if not self.absolute:
            raise ClockWasRead
        return Outcome(state, state)

    def waits(self, request: tuple[Any, ...]) -> int:
        return 0 if request[0] == "read" else int(request[1])

    def ready(self, state: int, request: tuple[Any, ...], now: int) -> bool:
        return False

    def hang_up(self, state: int, connection: str) -> int:
        return state

    def age(self, state: int, elapsed: int) -> int:
        return state + elapsed if self.absolute else 0

    def deadline(self, state: int) -> int | None:
        return None

    def describe(self, request: tuple[Any, ...]) -> Description:
        if request[0] == "sleep":
            return Description("sleep", f"wakes after {in_seconds(request[1] / 1e6)}", costs=0)
        if request[0] == "wait":
            most = "" if request[1] == FOR_EVER else f", at most {in_seconds(request[1] / 1e6)}"
            return Description("sleep", f"waits for a thread{most}", costs=0)
        return Description("read", "read the clock", costs=0)

    def show_reply(self, request: tuple[Any, ...], reply: Any) -> str:
        if request[0] == "wait":
            return "woken" if reply else "in vain"
        return "" if reply is None else in_seconds(reply / 1e6)

    def expiries(self, state: int) -> Mapping[str, int]:
        return {}

    def contents(self, state: int) -> Any:
        return state

    def portable(self, state: int) -> int:
        return state

    def adopt(self, portable: int) -> int:
        return portable
