"""Events that are written in one transaction with what they tell of, and published later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .checks import as_json, check_name, milliseconds, moment
from .table import Table

_ADD = "INSERT INTO outbox (event_id, payload, added_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_PENDING = "SELECT event_id, payload FROM outbox WHERE published_at IS NULL ORDER BY added_at, event_id LIMIT {limit:d}"
_MARK = "UPDATE outbox SET published_at = ? WHERE event_id = ?"
_PURGE = "DELETE FROM outbox WHERE published_at <= ?"


@dataclass(frozen=True)
class OutboxEvent:
    """An event that waits to be published.

    Parameters
    ----------
    id: equal each time that it is published; consumers tell by it that they have had it.
    payload: what was added, through JSON.
    """

    id: str
    payload: Any


class Outbox(Table):
    """A table of events that are still to be published.

    Guarantees: an event that is added in one transaction with a change is there exactly if the change is:

        with transaction(db):
            if statuses.compare_and_set("1", "completed"):
                outbox.add(effect_key("1", "completed"), {"job": "1"})

    Holds for `completion(status_with_outbox, relays=True)`, where a worker dies before its commit:
    `A A A crash:A clock B B B B B B B B B B`.
    Does not: publish it; a `Relay` does, later. Nor keep order: events come oldest first as their writers' clocks say.
    In a transaction of its own, an event is lost as if it were published then.
    Shown by `completion(status_then_outbox, relays=True)`, where a worker dies between the two transactions:
    `A A crash:A clock B B B B B`.
    """

    SCHEMA = """
        CREATE TABLE IF NOT EXISTS outbox (
            event_id TEXT PRIMARY KEY, payload TEXT NOT NULL, added_at BIGINT NOT NULL, published_at BIGINT)
    """

    def add(self, event_id: str, payload: object = None, now: float | None = None) -> bool:
        """Add an event, whose payload is anything that JSON can say; False when one with this id is there."""
        kept = as_json(f"the payload of {event_id!r}", payload)
        return bool(self.execute(_ADD, check_name("event_id", event_id), kept, moment(now)).rowcount == 1)

    def pending(self, limit: int = 100) -> list[OutboxEvent]:
        """The events that are not marked as published, oldest first, at most so many."""
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ValueError(f"limit is a number of events, 1 or more, not {limit!r}")
        rows = self.execute(_PENDING.format(limit=limit)).fetchall()
        return [OutboxEvent(event_id, json.loads(payload)) for event_id, payload in rows]

    def mark_published(self, event_id: str, now: float | None = None) -> None:
        """Note that an event was published."""
        self.execute(_MARK, moment(now), check_name("event_id", event_id))

    def purge(self, older_than: float, now: float | None = None) -> int:
        """Delete the events published so many seconds ago or earlier; returns how many."""
        return int(self.execute(_PURGE, moment(now) - milliseconds("older_than", older_than)).rowcount)
