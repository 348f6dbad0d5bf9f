"""A queue that hands a message over and forgets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import redis

from .errors import InvalidMessageContents
from .message import Message, check_blocking, decode, encode, text


@dataclass(frozen=True)
class PopQueue:
    """A list that is pushed at one end and popped at the other: at most once (Sidekiq's basic fetch, Celery's default).

    Guarantees: no message is delivered twice. Does not guarantee that it is worked on: the pop is the acknowledgement,
    so a crash between the pop and the end of the work, or a lost reply, loses the message.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: the key of the list.
    """

    client: redis.Redis
    name: str

    def send(self, body: object) -> None:
        """Add a message: anything that JSON can say, up to 1,048,576 bytes of it."""
        self.client.lpush(self.name, encode(body))

    def receive(self, wait: float = 0) -> list[Message]:
        """Take a message, or none; waits up to so many seconds, fewer than the client's `socket_timeout`.

        Raises `InvalidMessageContents` for an entry that is no JSON, which is put aside in the list NAME:unreadable.
        """
        check_blocking(self.client, wait)
        # To Redis a time-out of 0 means for ever; here it means not at all.
        popped = cast(Any, self.client.brpop([self.name], timeout=wait) if wait else self.client.rpop(self.name))
        if popped is None:
            return []
        entry = text(popped[1] if wait else popped)
        try:
            return [Message(decode(entry), f"{self.name}/{entry}", receive_count=1)]
        except InvalidMessageContents:
            self.client.lpush(f"{self.name}:unreadable", entry)
            raise

    def delete(self, receipt_handle: str) -> bool:
        """Nothing: the pop has deleted the message. It is here so that one worker can be run on every queue."""
        return False
