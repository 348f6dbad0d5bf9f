"""What every lock here shares: redis-py's words, the waiting, the owner's token, and `with`."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Literal, Self, TypeGuard

from redis.exceptions import LockError, LockNotOwnedError

logger = logging.getLogger(__name__)


class Lock:
    """All of a lock but its requests to Redis: a subclass says how to take, renew and give back.

    Parameters
    ----------
    redis: a `redis.Redis` client.
    name: the key, a text.
    timeout: the lease: seconds after which the lock frees itself; None for never.
    sleep: seconds between two attempts to take it.
    blocking: whether `acquire` waits for it.
    blocking_timeout: how many seconds `acquire` waits at most; None for as long as it takes.
    thread_local: whether each thread that uses this object has a token of its own; otherwise they share one, and a
        thread whose lease ran out gives back the lock that another has taken since.
    raise_on_release_error: whether leaving `with` raises when the lock was lost meanwhile; otherwise that is logged.

    Raises `LockError`, which is a `ValueError`, for what makes no sense. Not reentrant.
    """

    def __init__(
        self,
        redis: Any,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        if not hasattr(redis, "register_script") or not isinstance(name, str):
            raise LockError(f"A lock takes a redis.Redis client and a text for its name, not {redis!r} and {name!r}")
        self.redis, self.name, self.timeout = redis, name, timeout
        self.sleep, self.blocking, self.blocking_timeout = sleep, blocking, blocking_timeout
        self.thread_local, self.raise_on_release_error = thread_local, raise_on_release_error
        self.local = HeldByThread() if thread_local else Held()
        _refuse_bad_waits(sleep, blocking_timeout, name)
        _ = self.lease_ms  # refuses a bad timeout now, and not at the first `acquire`

    # ---- what a subclass adds; each returns whether it worked

    def do_acquire(self, token: bytes) -> bool:
        """Take the lock for this token unless it is taken."""
        raise NotImplementedError

    def do_release(self, token: bytes) -> bool:
        """Give the lock back if this token holds it."""
        raise NotImplementedError

    def do_extend(self, token: bytes, milliseconds: int, replace_ttl: bool) -> bool:
        """Let the lease last longer by, or from now on for, so many milliseconds if this token holds it."""
        raise NotImplementedError

    def do_reacquire(self, token: bytes) -> bool:
        """Let the lease start again if this token holds it."""
        raise NotImplementedError

    def new_token(self) -> str:
        """What tells this holder from every other one."""
        return uuid.uuid4().hex

    # ---- the interface of redis.lock.Lock

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Take the lock, and wait for it if told to; returns whether it was taken."""
        sleep = self.sleep if sleep is None else sleep
        blocking = self.blocking if blocking is None else blocking
        blocking_timeout = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        _refuse_bad_waits(sleep, blocking_timeout, self.name)
        mine: bytes = self.redis.get_encoder().encode(self.new_token() if token is None else token)
        give_up = None if blocking_timeout is None else time.monotonic() + blocking_timeout
        while not self.do_acquire(mine):
            if not blocking or (give_up is not None and time.monotonic() + sleep > give_up):
                return False
            time.sleep(sleep)
        self.local.token = mine
        return True

    def release(self) -> None:
        """Give the lock back; `LockNotOwnedError` when it was lost meanwhile, `LockError` when it was never taken.

        After a network error the lock is still ours as far as anybody knows: call `release` again;
        `LockNotOwnedError` then may mean that the first call worked.
        """
        token = self._token_to("release")
        released = self.do_release(token)
        if self.local.token == token:  # with a shared token, another thread may have taken the lock since
            self.local.token = None
        if not released:
            raise self._no_longer_owned("release")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Add seconds to what is left of the lease, or let it last so long from now; `LockNotOwnedError` when lost."""
        token = self._token_to("extend", leased=True)
        milliseconds = _milliseconds("additional_time", additional_time, self.name)
        if not self.do_extend(token, milliseconds, bool(replace_ttl)):
            raise self._no_longer_owned("extend")
        return True

    def reacquire(self) -> Literal[True]:
        """Let the lease start again, with its full timeout; `LockNotOwnedError` when it was lost meanwhile."""
        token = self._token_to("reacquire", leased=True)
        if not self.do_reacquire(token):
            raise self._no_longer_owned("reacquire")
        return True

    def locked(self) -> bool:
        """Whether anybody held it when Redis looked; it may be otherwise by now."""
        return self.redis.get(self.name) is not None

    def owned(self) -> bool:
        """Whether this holder held it when Redis looked; it may be otherwise by now."""
        holder = self.redis.get(self.name)
        return holder is not None and self.redis.get_encoder().encode(holder) == self.local.token

    def __enter__(self) -> Self:
        if not self.acquire():
            raise LockError("Unable to acquire lock within the time specified", lock_name=self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock %s was released or lost before its `with` block was left", self.name)

    @property
    def lease_ms(self) -> int | None:
        """The timeout in whole milliseconds, as Redis takes it."""
        return None if self.timeout is None else _milliseconds("timeout", self.timeout, self.name)

    def _token_to(self, what: str, leased: bool = False) -> bytes:
        token = self.local.token
        if token is None:
            raise LockError(f"Cannot {what} lock {self.name!r}: this thread does not hold it (any more)", self.name)
        if leased and self.timeout is None:
            raise LockError(f"Cannot {what} lock {self.name!r}: it has no timeout; construct it with one", self.name)
        return token

    def _no_longer_owned(self, what: str) -> LockNotOwnedError:
        return LockNotOwnedError(f"Cannot {what} lock {self.name!r}: it is no longer owned", self.name)


class Held:
    """What a lock object knows of what it holds: its owner's token, and its number if locks are numbered."""

    token: bytes | None = None
    number: int | None = None


class HeldByThread(Held, threading.local):
    """The same, for each thread apart: in a thread that has taken nothing, there is nothing."""


def _milliseconds(what: str, seconds: object, name: str) -> int:
    if not _is_number(seconds) or not 0.001 <= seconds < math.inf:
        raise LockError(f"{what} of lock {name!r} is a number of seconds, 0.001 or more, not {seconds!r}", name)
    return int(seconds * 1000)


def _refuse_bad_waits(sleep: object, blocking_timeout: object, name: str) -> None:
    waits = {"sleep": sleep} if blocking_timeout is None else {"sleep": sleep, "blocking_timeout": blocking_timeout}
    for what, seconds in waits.items():
        if not _is_number(seconds) or not 0 <= seconds < math.inf:
            raise LockError(f"{what} of lock {name!r} is a number of seconds, 0 or more, not {seconds!r}", name)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
