"""What is in production somewhere: each is the sound one, but for what it overrides."""

from __future__ import annotations

from .cache import COPY, StatusCache
from .outbox import OutboxEvent
from .relay import Relay
from .status import RedisStatusStore, as_text
from .table import transaction


class OverwritingStatusStore(RedisStatusStore):
    """Sets a status, whatever the present one is: SET.

    Guarantees: that the last writer wins.
    Does not: keep a job completed. A worker that comes late with `in-progress`, or `failed`, undoes it.
    Shown by `late_status(OverwritingStatusStore)`, where one starts it late: `B A`.

    Seen in https://github.com/NVIDIA/NVFlare/issues/5301
    """

    def compare_and_set(self, id: str, status: str) -> bool:
        self.machine.check(status)
        return bool(self.redis.set(self.key(id), status))


class GuardedStatusStore(RedisStatusStore):
    """Looks whether the status is terminal, then sets it: GET, and SET.

    Guarantees: that who looks at a completed job leaves it alone.
    Does not: keep a job completed for one that looked before. And SET drops the key's TTL.
    Shown by `late_status(GuardedStatusStore)`, where one looks before another completes: `A B B A`.
    """

    def compare_and_set(self, id: str, status: str) -> bool:
        self.machine.check(status)
        if self.get(id) in self.machine.terminal:
            return False
        return bool(self.redis.set(self.key(id), status))


class MarkFirstRelay(Relay):
    """Marks an event as published, then publishes it.

    Guarantees: that one relay publishes an event at most once.
    Does not: publish the event of a relay that died between the two; nobody ever does.
    Shown by `relayed(MarkFirstRelay)`, where a relay dies after it marked: `A A A A crash:A clock B B`.
    """

    def relay(self, event: OutboxEvent) -> None:
        with transaction(self.outbox.connection):
            self.outbox.mark_published(event.id)
        self.publish(event)


class DeleteOnWriteCache(StatusCache):
    """A reader that misses fills in what it read; a writer deletes the copy.

    Guarantees: that what was cached before a write is gone after it.
    Does not: stop a reader that read before the write and fills in after it; the old status is then read for one `ttl`.
    Shown by `cached(DeleteOnWriteCache)`, where a writer overtakes a reader: `A A B B B A`.
    """

    def get(self, id: str) -> str | None:
        found: str | None = as_text(self.redis.get(self.key(id)))
        if found is not None:
            return found.removeprefix(COPY)
        status = self.read(id)
        if status is not None:
            self.put(id, status)
        return status

    def put(self, id: str, status: str) -> None:
        """Put a copy, whatever is there."""
        self.redis.set(self.key(id), COPY + status, px=self.ttl_ms)


class WriteThroughCache(DeleteOnWriteCache):
    """A reader that misses fills in what it read; a writer calls `put` with the new status, and not `forget`.

    Guarantees: that a reader that comes after a write sees it, as long as no other reader is under way.
    Does not: stop a reader that read before the write and fills in after it, nor two writers whose puts come in the
    other order than their commits; the old status is then read for one `ttl`.
    Shown by `cached(WriteThroughCache)`, where a writer overtakes a reader: `A A B B B A`.
    """
