"""A queue on a stream with a consumer group, which remembers what was delivered and not acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import redis

from .errors import InvalidMessageContents, QueueDoesNotExist
from .message import Message, behind, check_blocking, check_range, decode, encode, text


@dataclass(frozen=True)
class StreamQueue:
    """A Redis stream read by one consumer group.

    Guarantees: what was delivered stays pending until somebody deletes it. Does not guarantee that it is ever
    delivered again: no time-out does that, only `claim`, which somebody must call. Nor that it is delivered once:
    `claim` takes what has been pending for long, dead or not, and the late worker's delete counts all the same.

    Parameters
    ----------
    client: the Redis that holds the stream.
    name: the stream's key.
    consumer: this worker's name in the group.
    group: the consumer group's name.
    max_deliveries: how often a message is delivered before the next claim makes it a dead letter; None for no end.
    """

    client: redis.Redis
    name: str
    consumer: str
    group: str = "workers"
    max_deliveries: int | None = None

    def __post_init__(self) -> None:
        if self.max_deliveries is not None:
            check_range("max_deliveries", self.max_deliveries, 1, 1_000, whole=True)

    def create(self) -> None:
        """Create the stream and its group; nothing when they are there."""
        try:
            self.client.xgroup_create(self.name, self.group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def send(self, body: object) -> str:
        """Add a message: anything that JSON can say, up to 1,048,576 bytes of it; returns its id."""
        return text(cast(Any, self.client.xadd(self.name, {"body": encode(body)})))

    def receive(self, max_messages: int = 1, wait: float = 0) -> list[Message]:
        """Take messages that were never delivered; what is pending never comes this way.

        Parameters
        ----------
        max_messages: at most so many, 1 to 100.
        wait: seconds to wait for the first, fewer than the client's `socket_timeout`.
        """
        check_range("max_messages", max_messages, 1, 100, whole=True)
        check_blocking(self.client, wait)
        block = max(1, round(wait * 1_000)) if wait else None  # to Redis, 0 means for ever
        with self._existing():
            found = self.client.xreadgroup(self.group, self.consumer, {self.name: ">"}, max_messages, block)
        return [self._message(entry, fields, 1) for entry, fields in _entries(found)]

    def delete(self, receipt_handle: str) -> bool:
        """Acknowledge a message and delete it from the stream; returns whether it was pending, with whomever.

        XACK does not ask who calls: a late worker deletes a message that somebody else has claimed and works on.
        """
        return bool(self._drop(behind(self.name, receipt_handle)))

    def claim(self, min_idle: float, max_messages: int = 1) -> list[Message]:
        """Take over messages that were delivered so many seconds ago, or more, and not deleted since.

        Parameters
        ----------
        min_idle: seconds, from 0.001 to 1,209,600; longer than any job takes, or two workers do it.
        max_messages: at most so many, 1 to 100.

        What was delivered `max_deliveries` times becomes a dead letter instead.
        """
        check_range("min_idle", min_idle, 0.001, 1_209_600)
        check_range("max_messages", max_messages, 1, 100, whole=True)
        idle, cursor, taken = round(min_idle * 1_000), "0-0", list[Message]()
        while True:  # a call looks at ten pending entries for each that it may give, idle or not
            with self._existing():
                claimed = self.client.xautoclaim(self.name, self.group, self.consumer, idle, cursor, max_messages)
            cursor, entries = cast(Any, claimed)[:2]
            for entry, fields in entries:
                deliveries = self._deliveries(entry)
                if self.max_deliveries and deliveries > self.max_deliveries:
                    self._drop(text(entry), dead_letter=_body(fields))
                elif deliveries:
                    taken.append(self._message(entry, fields, deliveries))
            if taken or text(cursor) == "0-0":
                return taken

    def dead_letters(self) -> list[Message]:
        """The messages that were delivered too often."""
        found = cast(Any, self.client.hgetall(f"{self.name}-dead-letters"))
        return [self._message(entry, {"body": found[entry]}, None) for entry in sorted(found)]

    def _drop(self, entry: str, dead_letter: str | None = None) -> int:
        with self.client.pipeline() as pipe:  # one step: a dead letter is in one place, never in none
            pipe.xack(self.name, self.group, entry)
            pipe.xdel(self.name, entry)
            if dead_letter is not None:
                pipe.hset(f"{self.name}-dead-letters", entry, dead_letter)
            return int(cast(Any, pipe.execute())[0])

    def _deliveries(self, entry: Any) -> int:
        """How often an entry was delivered; 0 when a late worker has deleted it meanwhile."""
        pending = cast(Any, self.client.xpending_range(self.name, self.group, entry, entry, 1))
        return int(pending[0]["times_delivered"]) if pending else 0

    def _message(self, entry: Any, fields: Any, deliveries: int | None) -> Message:
        id = text(entry)
        sent_at = int(id.partition("-")[0]) / 1_000
        return Message(decode(_body(fields)), f"{self.name}/{id}", id, deliveries, sent_at)

    @contextmanager
    def _existing(self) -> Iterator[None]:
        try:
            yield
        except redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            raise QueueDoesNotExist(
                f"there is no stream {self.name!r} with a group {self.group!r}: call create"
            ) from error


def _entries(reply: Any) -> list[Any]:
    """The entries of one stream, in the form of either protocol: a list of pairs, or a map to a list of lists."""
    if isinstance(reply, dict):
        return [entry for part in reply.values() for entry in part[0]]
    return reply[0][1] if reply else []


def _body(fields: Any) -> str:
    named = {text(name): text(value) for name, value in fields.items()}
    if "body" not in named:
        raise InvalidMessageContents(f"an entry of the stream has no field 'body': {named}")
    return named["body"]
