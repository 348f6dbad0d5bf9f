"""Four locks that are in production somewhere: each is the sound one, but for what it overrides."""

from __future__ import annotations

from .atomic import AtomicLock


class CheckThenSetLock(AtomicLock):
    """Looks whether the lock is free, then takes it: GET, and SET.

    Guarantees: that a lock whose holder is dead frees itself, if it has a timeout.
    Does not: keep a second worker out that looked before the first one took it.
    Shown by `contention(CheckThenSetLock)` in tests/test_locks.py: `A B B A`.
    """

    def do_acquire(self, token: bytes) -> bool:
        if self.redis.get(self.name) is not None:
            return False
        self.redis.set(self.name, token, px=self.lease_ms)
        return True


class SetnxThenExpireLock(AtomicLock):
    """Takes the lock, then gives it a lease: SETNX, and PEXPIRE.

    Guarantees: that one worker at a time takes it.
    Does not: free the lock of a worker that died between the two; it stays taken for ever.
    Shown by `death(SetnxThenExpireLock)` in tests/test_locks.py, where B comes after the lease: `A crash:A clock B B`.
    """

    def do_acquire(self, token: bytes) -> bool:
        if not self.redis.setnx(self.name, token):
            return False
        if self.lease_ms is not None:
            self.redis.pexpire(self.name, self.lease_ms)
        return True


class UnownedLock(AtomicLock):
    """Takes the lock atomically, with the same constant for everybody, and gives it back with a plain DEL.

    Guarantees: that one worker at a time takes it, and that a dead holder's lock frees itself, if it has a timeout.
    Does not: tell whose lock it is. A worker that comes too late to release its own releases its successor's.
    Shown by `late_release(UnownedLock)` in tests/test_locks.py, where A is paused before: `A clock B B A C C`.
    """

    def new_token(self) -> str:
        return "locked"

    def do_release(self, token: bytes) -> bool:
        self.redis.delete(self.name)
        return True


class GetThenDeleteLock(AtomicLock):
    """Has an owner's token, looks at it, then deletes the lock: GET, and DEL.

    Guarantees: what `UnownedLock` does, and that a worker that finds another's token leaves the lock alone.
    Does not: delete what it looked at. Between the two, the lease may end and the next worker take the lock.
    Shown by `late_release(GetThenDeleteLock)` in tests/test_locks.py: `A A clock B B A C C`.
    """

    def do_release(self, token: bytes) -> bool:
        return self.owned() and bool(self.redis.delete(self.name))
