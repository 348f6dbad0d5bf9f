"""A lock whose grants are numbered, and a resource that refuses those who come with an old number."""

from __future__ import annotations

from typing import Any

from redis.exceptions import LockError, LockNotOwnedError

from .atomic import AtomicLock

# Numbered first: where the counter is damaged, INCR fails, and a lock that was taken before would stay taken.
_ACQUIRE = """-- acquire with a number
if redis.call('exists', KEYS[1]) == 1 then return 0 end
local number = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], unpack(ARGV))
return number
"""
_WRITE = """-- write unless the number is old
local highest = redis.call('hget', KEYS[1], 'token')
if highest and tonumber(ARGV[1]) < tonumber(highest) then return 0 end
redis.call('hset', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1
"""


class FencedLock(AtomicLock):
    """An `AtomicLock` that numbers its grants: each holder's `fencing_token` is greater than all before it.

    Guarantees: what `AtomicLock` does; and a resource that checks the token, as `FencedRegister` does, is changed by
    nobody who was overtaken. The number is drawn in the script that takes the lock: drawn later, a paused holder's
    may be greater than its successor's.
    Does not: keep a paused holder out of its section. What does not check the token is not protected.
    Shown by `contention(FencedLock)` in tests/test_locks.py, the first of two workers paused inside: `A clock B`.
    Nor count on after a failover to a replica that lacks the last number: it is given out again.
    Shown by `numbered(FencedLock)` in tests/test_locks.py, where both are told 1: `A A failover B B`.

    The numbers are counted in the key `NAME:token`, which must neither expire nor be deleted. The two keys are in
    different slots of a cluster: not on a cluster, unless the name has a {hash tag}.
    Source: http://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
    """

    def do_acquire(self, token: bytes) -> bool:
        arguments = [token] if self.lease_ms is None else [token, "PX", self.lease_ms]
        script = self.redis.register_script(_ACQUIRE)
        number: int = script(keys=[self.name, f"{self.name}:token"], args=arguments)
        if number:
            self.local.number = number
        return number > 0

    @property
    def fencing_token(self) -> int:
        """The fencing token of this thread's grant; `LockError` when it has none."""
        if self.local.token is None or self.local.number is None:
            raise LockError(f"There is no fencing token: this thread has not acquired lock {self.name!r}", self.name)
        return self.local.number


class FencedRegister:
    """A value in Redis that remembers the highest fencing token it was written with.

    Guarantees: that no write takes effect once one with a greater token has.
    Does not: undo a write of an overtaken holder that arrives before its successor's first one.
    Nor tell two holders with the same token apart, as after a failover (see `FencedLock`): both may write.
    Shown by `fenced()` in tests/test_locks.py, where the paused holder's write is refused: `A clock B B A`.

    Parameters
    ----------
    redis: a `redis.Redis` client.
    name: the key, a hash with the fields `token` and `value`.
    """

    def __init__(self, redis: Any, name: str) -> None:
        self.redis, self.name = redis, name

    def write(self, token: int, value: str | bytes | float) -> None:
        """Write a value; `LockNotOwnedError` when a greater token was here, `LockError` when the token is none."""
        if not isinstance(token, int) or isinstance(token, bool) or token < 1:
            raise LockError(f"A fencing token is a number from 1 on, not {token!r}: write(lock.fencing_token, value)")
        if not self.redis.register_script(_WRITE)(keys=[self.name], args=[token, value]):
            raise LockNotOwnedError(f"Write to {self.name!r} refused: fencing token {token} was overtaken", self.name)

    def read(self) -> Any:
        """The value, as the client decodes it; None when there was none yet."""
        return self.redis.hget(self.name, "value")
