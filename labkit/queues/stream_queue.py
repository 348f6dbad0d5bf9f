"""A queue on a stream with a consumer group, which remembers what was delivered and not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from .message import Message, behind, check_blocking, check_range, encode, text
from .stream_group import StreamGroup


@dataclass(frozen=True)
class StreamQueue(StreamGroup):
    """A Redis stream as one consumer of its group has it.

    Guarantees: what was delivered stays pending until somebody deletes it.
    Does not: deliver it again by itself; somebody must call `claim`. Nor deliver once: `claim` takes what has been
    pending for long, whether its consumer is dead or slow, and a slow one's delete counts all the same.
    Shown by `overtaken(StreamQueue)` in tests/test_queues.py, R claims when A is slow: `A A clock R R R`.
    Source: https://redis.io/docs/latest/commands/xautoclaim

    Parameters
    ----------
    consumer: this worker's name in the group.
    max_deliveries: how often a message is delivered before the next claim makes it a dead letter; None for no end.
    """

    consumer: str
    max_deliveries: int | None = None
    most_messages: ClassVar[int] = 100

    def __post_init__(self) -> None:
        if self.max_deliveries is not None:
            check_range("max_deliveries", self.max_deliveries, 1, 1_000, whole=True)

    def receive(self, max_messages: int = 1, wait: float = 0) -> list[Message]:
        """Take 1 to 100 messages that were never delivered; what is pending never comes this way.

        Waits up to so many seconds for the first, fewer than the client's `socket_timeout`.
        """
        check_range("max_messages", max_messages, 1, self.most_messages, whole=True)
        check_blocking(self.client, wait)
        block = max(1, round(wait * 1_000)) if wait else None  # to Redis, 0 means for ever
        with self.existing():
            found = self.client.xreadgroup(self.group, self.consumer, {self.name: ">"}, max_messages, block)
        return [self.message(entry, fields, 1) for entry, fields in _entries(found)]

    def delete(self, receipt_handle: str) -> bool:
        """Acknowledge a message and delete it from the stream; returns whether it was pending, with whomever."""
        return drop(self, behind(self.name, receipt_handle))

    def claim(self, min_idle: float, max_messages: int = 1) -> list[Message]:
        """Take over 1 to 100 messages that were delivered at least `min_idle` seconds ago and not deleted since.

        `min_idle` is from 0.001 to 1,209,600; unless it is longer than any job takes, two workers do the same job.
        """
        check_range("min_idle", min_idle, 0.001, 1_209_600)
        check_range("max_messages", max_messages, 1, self.most_messages, whole=True)
        cursor, taken = "0-0", list[Message]()
        while True:  # each call looks at ten pending entries for each that it may give, idle or not
            with self.existing():
                options = round(min_idle * 1_000), cursor, max_messages
                cursor, entries, *_ = cast(Any, self.client.xautoclaim(self.name, self.group, self.consumer, *options))
            taken += [message for entry, fields in entries for message in deliver(self, entry, fields)]
            if taken or text(cursor) == "0-0":
                return taken


def deliver(queue: StreamQueue, entry: Any, fields: Any) -> list[Message]:
    """A claimed entry; none when it has been delivered too often, or a slow consumer has deleted it meanwhile."""
    pending = cast(Any, queue.client.xpending_range(queue.name, queue.group, entry, entry, 1))
    if not pending:
        return []
    if queue.max_deliveries is not None and pending[0]["times_delivered"] > queue.max_deliveries:
        drop(queue, text(entry), dead_letter=fields)
        return []
    return [queue.message(entry, fields, pending[0]["times_delivered"])]


def drop(queue: StreamQueue, entry: str, dead_letter: Any = None) -> bool:
    """Acknowledge and delete an entry, as one step: a dead letter is in one place, and never in none."""
    with queue.client.pipeline() as pipe:
        pipe.xack(queue.name, queue.group, entry)
        pipe.xdel(queue.name, entry)
        if dead_letter is not None:
            pipe.hset(f"{queue.name}-dead-letters", entry, encode(queue.message(entry, dead_letter, None).body))
        return bool(cast(Any, pipe.execute())[0])


def _entries(reply: Any) -> list[Any]:
    """The entries of one stream, in either protocol's form: a list of pairs, or a map to lists of lists."""
    if isinstance(reply, dict):
        return [entry for part in reply.values() for entry in part[0]]
    return reply[0][1] if reply else []
