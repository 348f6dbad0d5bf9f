"""A stream and its consumer group: what all consumers of a stream queue share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import redis

from .errors import QueueDoesNotExist
from .message import Message, decode, encode, text


@dataclass(frozen=True)
class StreamGroup:
    """A Redis stream with one consumer group.

    Parameters
    ----------
    client: the Redis that holds the stream.
    name: the stream's key.
    group: the consumer group's name.
    """

    client: redis.Redis
    name: str
    group: str = field(default="workers", kw_only=True)

    def create(self) -> None:
        """Create the stream and its group; nothing when they are there."""
        try:
            self.client.xgroup_create(self.name, self.group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def send(self, body: object) -> str:
        """Add a message: what JSON can say, up to 1,048,576 bytes of it; returns its id."""
        return text(cast(Any, self.client.xadd(self.name, {"body": encode(body)})))

    def dead_letters(self) -> list[Message]:
        """The messages that were delivered too often."""
        found = cast(Any, self.client.hgetall(f"{self.name}-dead-letters"))
        return [self.message(entry, {"body": found[entry]}, None) for entry in sorted(found)]

    def message(self, entry: Any, fields: Any, deliveries: int | None) -> Message:
        """An entry as a message; one without the field `body` is somebody else's, and comes as all its fields."""
        named, id = {text(name): text(value) for name, value in fields.items()}, text(entry)
        body = decode(named["body"]) if "body" in named else named
        return Message(body, f"{self.name}/{id}", id, deliveries, int(id.partition("-")[0]) / 1_000)

    @contextmanager
    def existing(self) -> Iterator[None]:
        """Say it in the queues' words when there is no such stream or group."""
        try:
            yield
        except redis.ResponseError as error:
            # Some imitations of Redis answer as XGROUP does.
            if "NOGROUP" not in str(error) and "requires the key to exist" not in str(error):
                raise
            missing = f"there is no stream {self.name!r} with a group {self.group!r}: call create"
            raise QueueDoesNotExist(missing) from error
