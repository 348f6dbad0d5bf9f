"""A queue that hands a message over and forgets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import redis

from .message import Message, check_blocking, decode, encode, text


@dataclass(frozen=True)
class PopQueue:
    """A list, pushed at one end and popped at the other (Sidekiq's basic fetch; RQ on several queues).

    Guarantees: no message is delivered twice.
    Does not: care whether it is worked on. The pop is the acknowledgement, so a crash between the pop and the end of
    the work, or a lost reply, loses the message.
    Shown by `popped()` in tests/test_queues.py, A crashes after its pop: `A crash:A`.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: the key of the list.
    """

    client: redis.Redis
    name: str

    def send(self, body: object) -> None:
        """Add a message: what JSON can say, up to 1,048,576 bytes of it."""
        self.client.lpush(self.name, encode(body))

    def receive(self, wait: float = 0) -> list[Message]:
        """Take a message, or none; waits up to so many seconds, fewer than the client's `socket_timeout`."""
        check_blocking(self.client, wait)
        # To Redis a time-out of 0 means for ever; here it means not at all.
        client = cast(Any, self.client)
        entry = (client.brpop([self.name], wait) or (None, None))[1] if wait else client.rpop(self.name)
        return [] if entry is None else [Message(decode(entry), f"{self.name}/{text(entry)}", receive_count=1)]

    def delete(self, receipt_handle: str) -> bool:
        """True, since the pop has deleted it. It is here so that one worker can be run on every queue."""
        return True
