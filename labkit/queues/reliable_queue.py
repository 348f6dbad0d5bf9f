"""A queue that remembers which worker has which message, and gives back what dead workers had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import redis

from .errors import InvalidMessageContents
from .message import Message, behind, check_blocking, check_range, decode, encode, text

# One step: a worker that comes back to life between the look and the move would lose what it works on.
_REAP = """-- reap
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local moved = 0
while redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT') do moved = moved + 1 end
return moved
"""


@dataclass(frozen=True)
class ReliableQueue:
    """A list with a processing list for each worker (Redis's "reliable queue"; Sidekiq Pro's super fetch, RQ).

    Guarantees: a message is always in the queue or in some worker's processing list, until that worker deletes it; what
    a dead worker had is given back by whoever calls `reap`. Does not guarantee that it is delivered once: a worker is
    dead when its heartbeat has stopped, and one that works for longer without a heartbeat only looks dead.
    Nothing counts deliveries: a message that kills its worker goes round for ever.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: the key of the list.
    worker: this worker's name. Names are kept for ever, so let a restarted worker have the name it had.
    heartbeat_ttl: seconds that a heartbeat lasts.
    """

    client: redis.Redis
    name: str
    worker: str
    heartbeat_ttl: float = 60

    def __post_init__(self) -> None:
        check_range("heartbeat_ttl", self.heartbeat_ttl, 0.001, 86_400)

    def send(self, body: object) -> None:
        """Add a message: anything that JSON can say, up to 1,048,576 bytes of it."""
        self.client.lpush(self.name, encode(body))

    def receive(self, wait: float = 0) -> list[Message]:
        """Give a heartbeat, then move a message to this worker's processing list; none when there is none.

        Parameters
        ----------
        wait: seconds to wait for a message, fewer than the client's `socket_timeout` and than a heartbeat lasts.

        Raises `InvalidMessageContents` for an entry that is no JSON, which is put aside in the list NAME:unreadable.
        """
        check_blocking(self.client, wait)
        if wait >= self.heartbeat_ttl:
            raise ValueError(f"wait is {wait!r}; it must be less than a heartbeat lasts, {self.heartbeat_ttl:g} s")
        self.heartbeat()
        mine = self._processing(self.worker)
        if wait:
            moved = self.client.blmove(self.name, mine, cast(int, wait), "RIGHT", "LEFT")
        else:
            moved = self.client.lmove(self.name, mine, "RIGHT", "LEFT")
        if moved is None:
            return []
        entry = text(cast(Any, moved))
        try:
            return [Message(decode(entry), f"{self.name}/{entry}")]
        except InvalidMessageContents:
            self.client.lmove(mine, f"{self.name}:unreadable", "LEFT", "LEFT")
            raise

    def delete(self, receipt_handle: str) -> bool:
        """Take a message that is done from this worker's processing list (elsewhere: acknowledge).

        Returns False when it was not there: it was given back meanwhile, and somebody else does it again.
        """
        entry = behind(self.name, receipt_handle)
        return bool(self.client.lrem(self._processing(self.worker), 1, entry))

    def heartbeat(self) -> None:
        """Say that this worker lives; to be called at least every `heartbeat_ttl` seconds while it works."""
        with self.client.pipeline() as pipe:
            pipe.sadd(f"{self.name}:workers", self.worker)
            pipe.set(self._alive(self.worker), 1, px=round(self.heartbeat_ttl * 1_000))
            pipe.execute()

    def reap(self) -> int:
        """Give back what workers without a heartbeat had, oldest first; returns how many messages."""
        reap = cast(Any, self.client.register_script(_REAP))
        workers = sorted(map(text, cast(Any, self.client.smembers(f"{self.name}:workers"))))
        return sum(reap([self.name, self._processing(worker), self._alive(worker)]) for worker in workers)

    def _processing(self, worker: str) -> str:
        return f"{self.name}:processing:{worker}"

    def _alive(self, worker: str) -> str:
        return f"{self.name}:alive:{worker}"
