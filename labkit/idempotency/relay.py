"""What publishes the events of an outbox."""

from __future__ import annotations

from collections.abc import Callable

from .outbox import Outbox, OutboxEvent
from .table import transaction


class Relay:
    """Publishes what is in an outbox, then marks it.

    Guarantees: every event is published at least once, as long as some relay comes again after a crash.
    Does not: publish it only once. A relay that dies between the two, and two relays side by side, publish it twice:
    consumers must tell by the event's id that they have had it (`ProcessedEvents`, with the event's id for a key).
    Shown by `relayed(Relay)`, where a relay dies before it marks: `A A crash:A clock B B B`.

    Parameters
    ----------
    outbox: its connection is the relay's own: the relay commits.
    publish: called with each `OutboxEvent`; when it raises, the event stays.
    """

    def __init__(self, outbox: Outbox, publish: Callable[[OutboxEvent], object]) -> None:
        self.outbox, self.publish = outbox, publish

    def run_once(self, limit: int = 100) -> int:
        """Publish what is pending, at most so many; returns how many. Call it again and again."""
        with transaction(self.outbox.connection):
            events = self.outbox.pending(limit)
        for event in events:
            self.relay(event)
        return len(events)

    def relay(self, event: OutboxEvent) -> None:
        """Publish one event and note it."""
        self.publish(event)
        with transaction(self.outbox.connection):
            self.outbox.mark_published(event.id)
