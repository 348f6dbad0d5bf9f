"""The interface of a store: a table from numbered states and requests to replies and numbered states."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one request does to one state.

    Parameters
    ----------
    reply: what the worker gets.
    state: the number of the state after it.
    reads, writes: the keys that the request looked at and changed.
    """

    reply: Any
    state: int
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether the request changed anything."""
        return bool(self.writes)


FOR_EVER = -1  # a wait that only another worker can end


@dataclass(frozen=True, slots=True)
class Description:
    """How a request is shown to people.

    Parameters
    ----------
    kind: `command`, `call`, `sleep` or `read`.
    text: the request, as one would write it.
    costs: 1 when it counts for the length of a trace, else 0.
    """

    kind: str
    text: str
    costs: int = 1


class Store(Protocol):
    """One shared thing. Its states are numbered by content, so that equal contents have equal numbers.

    Times are in microseconds. `now` is the lab's clock, or 0 in a search that merges states
    which differ in nothing but the time.
    """

    start: int

    def apply(self, state: int, request: Any, now: int) -> Outcome:
        """What a request does; the same arguments always have the same outcome."""

    def waits(self, request: Any) -> int:
        """How long a request may wait for what it asks: 0 when it is answered at once, or `FOR_EVER`."""

    def ready(self, state: int, request: Any, now: int) -> bool:
        """Whether a request that may wait would be answered now."""

    def hang_up(self, state: int, connection: str) -> int:
        """The state after connections are gone: one, or with a name that ends in `/` all of a worker."""

    def age(self, state: int, elapsed: int) -> int:
        """The state after time has passed in it."""

    def deadline(self, state: int) -> int | None:
        """How long until the state changes by itself; None when it never will."""

    def describe(self, request: Any) -> Description:
        """The request for people."""

    def show_reply(self, request: Any, reply: Any) -> str:
        """The reply for people."""

    def expiries(self, state: int) -> Mapping[str, int]:
        """The keys that will vanish, with the time each has left."""

    def contents(self, state: int) -> Any:
        """The content of a state as plain, comparable data."""

    def portable(self, state: int) -> Any:
        """All that a state is, as plain data: another process knows the state by it."""

    def adopt(self, portable: Any) -> int:
        """The number of a state that another process describes."""


@dataclass
class Interned:
    """Numbers for values: equal values have equal numbers, counted from 0 in order of appearance."""

    values: list[Any] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    def number(self, value: Any) -> int:
        """The number of a hashable value."""
        found = self.numbers.get(value)
        if found is None:
            found = self.numbers[value] = len(self.values)
            self.values.append(value)
        return found


def fresh(reply: Any) -> Any:
    """A copy of a reply that its receiver may keep and change."""
    if reply is None or isinstance(reply, (bytes, str, int, float)):
        return reply
    if type(reply) is list:
        return [fresh(part) for part in reply]
    if isinstance(reply, tuple):
        parts = [fresh(part) for part in reply]
        if all(new is old for new, old in zip(parts, reply, strict=True)):
            return reply  # nothing in it can change
        return tuple(parts) if type(reply) is tuple else type(reply)(*parts)
    return copy.deepcopy(reply)
