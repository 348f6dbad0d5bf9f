"""Outside services: mail, payments, events. What they did cannot be taken back, so it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.stores.base import Description, Interned, Outcome
from labkit.words import in_one_line

READY_MADE = ("mail", "events")  # services that every lab has
_VERB = {"mail": "send", "events": "publish"}


class Call(NamedTuple):
    """A request to an outside service.

    Parameters
    ----------
    key: what it is about, such as an order id.
    idempotency_key: equal for attempts that mean the same effect; None when the caller gave none.
    fields: whatever else the caller sent, sorted by name.
    """

    key: str
    idempotency_key: str | None
    fields: tuple[tuple[str, str], ...]


@dataclass
class ServiceLog:
    """The effects of one service, in order; a state is the tuple of calls that took effect.

    Parameters
    ----------
    name: the service's name.
    deduplicates: whether a second call with the same idempotency key has no effect.
    """

    name: str
    deduplicates: bool = False

    def __post_init__(self) -> None:
        self._states = Interned()
        self.start = self._states.number(())

    def apply(self, state: int, request: Call, now: int) -> Outcome:
        effects: tuple[Call, ...] = self._states.values[state]
        known = self.deduplicates and request.idempotency_key is not None
        if known and any(effect.idempotency_key == request.idempotency_key for effect in effects):
            return Outcome("already done", state)
        touched = (f"{self.name}:{request.key}",)
        return Outcome("done", self._states.number((*effects, request)), writes=touched)

    def waits(self, request: Call) -> int:
        return 0

    def ready(self, state: int, request: Call, now: int) -> bool:
        return False

    def hang_up(self, state: int, connection: str) -> int:
        return state

    def age(self, state: int, elapsed: int) -> int:
        return state

    def deadline(self, state: int) -> int | None:
        return None

    def describe(self, request: Call) -> Description:
        extra = [f"{name}={value}" for name, value in request.fields]
        if request.idempotency_key is not None:
            extra.append(f"idempotency_key={request.idempotency_key}")
        words = in_one_line(", ".join([request.key, *extra]))
        return Description("call", f"{self.name}.{_VERB.get(self.name, 'call')}({words})")

    def show_reply(self, request: Call, reply: Any) -> str:
        return str(reply)

    def expiries(self, state: int) -> Mapping[str, int]:
        return {}

    def contents(self, state: int) -> tuple[Call, ...]:
        effects: tuple[Call, ...] = self._states.values[state]
        return effects

    portable = contents

    def adopt(self, portable: tuple[Call, ...]) -> int:
        return self._states.number(portable)
