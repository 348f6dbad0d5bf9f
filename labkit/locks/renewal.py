"""A thread that renews a lease while a job runs, and tells the job when it could not."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from redis.exceptions import LockError
from redis.lock import Lock as RedisLock

from .lock import Lock


class LeaseLost(LockError):
    """A lease could not be renewed: somebody else may hold the lock by now."""


class Renewal:
    """Renews a held lock every third of its timeout, until the `with` block is left.

    Guarantees: that a job may take longer than its lease, and that a job that calls `check` hears of a failed renewal.
    A dead process renews nothing, so its lock still frees itself.
    Does not: help a process that is paused as a whole. Its thread is paused with it, and its job may wake up first and
    pass `check`; only a fencing token at the resource stops that one.

    Parameters
    ----------
    lock: a lock with a timeout, which this thread holds; redis-py's own will do.

    Raises `LockError` for a lock without a timeout, or not held by this thread.
    """

    def __init__(self, lock: Lock | RedisLock) -> None:
        if not lock.timeout:
            raise LockError(f"Cannot renew lock {lock.name!r}: it has no timeout; construct it with one", lock.name)
        self.lock = lock
        self.interval = lock.timeout / 3
        self.lost: Exception | None = None
        self.stopped = threading.Event()

    def check(self) -> None:
        """`LeaseLost` once a renewal has failed; call it before each effect."""
        if self.lost is not None:
            raise LeaseLost(f"Lock {self.lock.name!r} was not renewed: {self.lost}", self.lock.name) from self.lost

    def __enter__(self) -> Self:
        token = self.lock.local.token
        if token is None:
            raise LockError(f"Cannot renew lock {self.lock.name!r}: this thread has not acquired it", self.lock.name)
        self.lost = None
        self.stopped.clear()
        self.thread = threading.Thread(target=self._renew, args=(token,), name=f"renew {self.lock.name}", daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.thread.join()  # a renewal that is under way must not come after the release

    def _renew(self, token: bytes) -> None:
        self.lock.local.token = token  # the owner's token is known to the thread that acquired only
        while not self.stopped.wait(self.interval):
            try:
                self.lock.reacquire()
            except Exception as error:  # whatever it was: from here on the lease is not safe
                self.lost = error
                return
