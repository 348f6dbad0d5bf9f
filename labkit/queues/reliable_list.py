"""A list with a processing list for each worker: what all workers of a reliable queue share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, cast

import redis

from .message import encode, text

_GIVE_BACK = """
local moved = 0
while redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT') do moved = moved + 1 end
return moved
"""
# One step: a worker that comes back between the look and the move would be robbed of what it works on.
_REAP = "-- reap\nif redis.call('EXISTS', KEYS[3]) == 1 then return 0 end" + _GIVE_BACK
_RECOVER = "-- recover" + _GIVE_BACK


@dataclass(frozen=True)
class ReliableList:
    """A Redis list, and what its workers have received and not deleted.

    Parameters
    ----------
    client: the Redis that holds the queue.
    name: the key of the list.
    """

    client: redis.Redis
    name: str

    def send(self, body: object) -> None:
        """Add a message: what JSON can say, up to 1,048,576 bytes of it."""
        # The id tells equal bodies apart: a receipt handle that is used twice must not delete another's message.
        self.client.lpush(self.name, f'{{"id": "{uuid.uuid4().hex}", "body": {encode(body)}}}')

    def reap(self) -> int:
        """Give back what workers without a heartbeat had, oldest first; returns how many messages."""
        reap, name = cast(Any, self.client.register_script(_REAP)), self.name
        workers = sorted(map(text, cast(Any, self.client.smembers(f"{name}:workers"))))
        return sum(reap([name, f"{name}:processing:{worker}", f"{name}:alive:{worker}"]) for worker in workers)

    def give_back(self, worker: str) -> int:
        """Give back what a worker had, whether it lives or not; returns how many messages."""
        recover = cast(Any, self.client.register_script(_RECOVER))
        return int(recover([self.name, f"{self.name}:processing:{worker}"]))
