"""A thread that renews a lease while a job runs, and tells the job when it could not."""

from __future__ import annotations

import threading
import time
from typing import Self

from redis.exceptions import LockError
from redis.lock import Lock as RedisLock

from .lock import Lock


class LeaseLost(LockError):
    """A lease could not be renewed: somebody else may hold the lock by now."""


class Renewal:
    """Renews a held lock every third of its timeout, until the `with` block is left.

    Guarantees: that a job may take longer than its lease, and that `check` passes only while the lease lasts by this
    process's clock: not after a failed renewal, one that hangs, or a pause. A dead process's lock still frees itself.
    Does not: help a process that is paused between `check` and its effect; only a fencing token at the resource does.
    Nor end before a renewal that hangs: give the client a `socket_timeout`.
    Shown by `renewed()` in tests/test_renewal.py, A paused between the two: `A A A clock A A clock clock B B`.

    Parameters
    ----------
    lock: a lock with a timeout, which this thread holds; redis-py's own will do.

    Raises `LockError` for a lock without a timeout, or not held by this thread. To enter the block renews it at once,
    since nobody knows how long ago it was taken: `LockNotOwnedError` when it was lost already.
    """

    def __init__(self, lock: Lock | RedisLock) -> None:
        if not lock.timeout:
            raise LockError(f"Cannot renew lock {lock.name!r}: it has no timeout; construct it with one", lock.name)
        self.lock = lock
        self.timeout = lock.timeout
        self.lost: Exception | None = None
        self.renewed_at: float | None = None  # the clock before the last renewal that worked; None outside of the block
        self.stopped = threading.Event()

    def check(self) -> None:
        """`LeaseLost` once a renewal has failed or the lease is over, and outside of the block; for each effect."""
        if (why := _why_unsafe(self)) is not None:
            raise LeaseLost(f"Lock {self.lock.name!r} was not renewed: {why}", self.lock.name) from self.lost

    def __enter__(self) -> Self:
        token = self.lock.local.token
        if token is None:
            raise LockError(f"Cannot renew lock {self.lock.name!r}: this thread has not acquired it", self.lock.name)
        self.lost = None
        self._reacquire()
        self.stopped.clear()
        self.thread = threading.Thread(target=self._renew, args=(token,), name=f"renew {self.lock.name}", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()  # a renewal that is under way must not come after the release
        self.renewed_at = None

    def _renew(self, token: bytes) -> None:
        self.lock.local.token = token  # the owner's token is known to the thread that acquired only
        while not self.stopped.wait(self.timeout / 3):
            try:
                self._reacquire()
            except Exception as error:  # whatever it was: from here on the lease is not safe
                self.lost = error
                return

    def _reacquire(self) -> None:
        asked_at = time.monotonic()  # the lease begins later, when Redis has heard
        self.lock.reacquire()
        self.renewed_at = asked_at


def _why_unsafe(renewal: Renewal) -> object:
    if renewal.renewed_at is None:
        return "that happens inside of `with` only"
    if renewal.lost is None and time.monotonic() - renewal.renewed_at >= renewal.timeout:
        return f"not for its whole timeout, {renewal.timeout:g} seconds"
    return renewal.lost
