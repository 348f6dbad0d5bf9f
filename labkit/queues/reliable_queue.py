"""A queue that remembers which worker has which message, and gives back what dead workers had."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, cast

import redis

from .message import Message, behind, check_blocking, check_range, decode, encode, text

# One step: a worker that comes back between the look and the move would be robbed of what it works on.
_REAP = """-- reap
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local moved = 0
while redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT') do moved = moved + 1 end
return moved
"""


@dataclass(frozen=True)
class ReliableQueue:
    """A list, with a processing list for each worker (Redis's "reliable queue"; Sidekiq Pro's super fetch).

    Guarantees: a message is in the queue or in some worker's processing list until that worker deletes it.
    Does not: give back what a dead worker had, unless somebody calls `reap`. Nor deliver once: dead is who gives no
    heartbeat, and a slow worker may give none. Nor count: a message that kills its worker goes round for ever.
    Shown by R, who reaps and receives when A has worked for longer than that: `A A A clock R R R R R`.
    Source: https://redis.io/docs/latest/commands/lmove

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: the key of the list.
    worker: this worker's name; it is kept for ever, so a worker that is started again should have it again.
    heartbeat_ttl: seconds that a heartbeat lasts.
    """

    client: redis.Redis
    name: str
    worker: str
    heartbeat_ttl: float = 60

    def __post_init__(self) -> None:
        check_range("heartbeat_ttl", self.heartbeat_ttl, 0.001, 86_400)

    def send(self, body: object) -> None:
        """Add a message: what JSON can say, up to 1,048,576 bytes of it."""
        # The id tells equal bodies apart: a receipt handle that is used twice must not delete another's message.
        self.client.lpush(self.name, f'{{"id": "{uuid.uuid4().hex}", "body": {encode(body)}}}')

    def receive(self, wait: float = 0) -> list[Message]:
        """Give a heartbeat, then move a message, or none, to this worker's processing list.

        Waits up to so many seconds, fewer than `heartbeat_ttl` and the client's `socket_timeout`.
        """
        check_blocking(self.client, wait)
        if wait >= self.heartbeat_ttl:
            raise ValueError(f"wait is {wait!r}; it must be less than heartbeat_ttl, {self.heartbeat_ttl:g} seconds")
        self.heartbeat()
        client, ends = cast(Any, self.client), (self.name, f"{self.name}:processing:{self.worker}")
        entry = client.blmove(*ends, wait, "RIGHT", "LEFT") if wait else client.lmove(*ends, "RIGHT", "LEFT")
        return [] if entry is None else [_message(self.name, entry)]

    def delete(self, receipt_handle: str) -> bool:
        """Take a message that is done from this worker's list; False when it was given back, and is done once more."""
        return bool(self.client.lrem(f"{self.name}:processing:{self.worker}", 1, behind(self.name, receipt_handle)))

    def heartbeat(self) -> None:
        """Say that this worker lives; to be called every `heartbeat_ttl` seconds at the latest while it works."""
        with self.client.pipeline() as pipe:
            pipe.sadd(f"{self.name}:workers", self.worker)
            pipe.set(f"{self.name}:alive:{self.worker}", 1, px=round(self.heartbeat_ttl * 1_000))
            pipe.execute()

    def reap(self) -> int:
        """Give back what workers without a heartbeat had, oldest first; returns how many messages."""
        reap, name = cast(Any, self.client.register_script(_REAP)), self.name
        workers = sorted(map(text, cast(Any, self.client.smembers(f"{name}:workers"))))
        return sum(reap([name, f"{name}:processing:{worker}", f"{name}:alive:{worker}"]) for worker in workers)


def _message(name: str, entry: bytes | str) -> Message:
    content, handle = decode(entry), f"{name}/{text(entry)}"
    if isinstance(content, dict) and content.keys() == {"id", "body"}:
        return Message(content["body"], handle, content["id"])
    return Message(content, handle)  # somebody else has put it there
