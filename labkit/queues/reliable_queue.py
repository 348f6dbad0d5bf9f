"""A queue that remembers which worker has which message, and gives back what dead workers had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from .message import Message, behind, check_blocking, check_range, decode, text
from .reliable_list import ReliableList


@dataclass(frozen=True)
class ReliableQueue(ReliableList):
    """A list, with a processing list for each worker (Redis's "reliable queue"; Sidekiq Pro's super fetch).

    Guarantees: a message is in the queue or in some worker's processing list until that worker deletes it.
    Does not: give back what a dead worker had, unless somebody calls `reap`. Nor deliver once: dead is who gives no
    heartbeat, and a slow worker may give none. Nor count: a message that kills its worker goes round for ever.
    Shown by `overtaken(ReliableQueue)` in tests/test_queues.py, R reaps when A is slow: `A A A clock R R R R R`.
    Nor give back what a living worker has without knowing it, unless that one calls `recover`: what it had before it
    was started again under its name, or what came with a lost reply.
    Shown by `stranded()` in tests/test_queues.py: `A lose:A clock A A A clock A R R R R R`.
    Source: https://redis.io/docs/latest/commands/lmove

    Parameters
    ----------
    client, name: see `ReliableList`.
    worker: this worker's name; it is kept for ever, so a worker that is started again should have it again.
    heartbeat_ttl: seconds that a heartbeat lasts.
    """

    worker: str
    heartbeat_ttl: float = 60

    def __post_init__(self) -> None:
        check_range("heartbeat_ttl", self.heartbeat_ttl, 0.001, 86_400)

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

    def recover(self) -> int:
        """Give back what this worker had: at its start, and after a receive that failed; returns how many messages.

        Never while it works on one, which would be done twice.
        """
        return self.give_back(self.worker)


def _message(name: str, entry: bytes | str) -> Message:
    content, handle = decode(entry), f"{name}/{text(entry)}"
    if isinstance(content, dict) and content.keys() == {"id", "body"}:
        return Message(content["body"], handle, content["id"])
    return Message(content, handle)  # somebody else has put it there
