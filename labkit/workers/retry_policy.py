"""What a failure means: try again, later, or never."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .checks import check_number


class Busy(Exception):
    """Somebody else is at this job, or on what it needs: not done, and not failed. The message comes back later.

    A handler that returns instead says that the job is done: its message is deleted, although whoever is at the job
    may be dead.
    """


class Permanent(Exception):
    """Another attempt would fail like this one."""


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with a limit, by kind of error.

    Guarantees, on a queue with `change_visibility`: `Busy` comes back however often it happens; and, provided the
    consumer has `dead_letters`, a permanent error is tried once, any other `max_attempts` times, with waits between
    that grow. Without `dead_letters`, the queue delivers again what was given up.
    Does not: count failures. Attempts are deliveries: those that `Busy`, a crash or a drain ended count too.
    Shown by `counted()` in tests/test_workers.py, a first failure that is the last: `A A A A A A clock A A A A A`.

    Parameters
    ----------
    first_wait, longest_wait: seconds between the first two attempts, and between any two.
    factor: how many times longer each wait is than the one before, 1 to 100.
    max_attempts: attempts in all, the first one included.
    jitter: the share of each wait that is left to chance, 0 to 1: of workers that failed together, not all come back
        together.
    retryable: exception types that another attempt may cure; all others are permanent.
    permanent: exception types that it does not cure, although they are among `retryable`.

    Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    first_wait: float = 1
    longest_wait: float = 60
    factor: float = 2
    max_attempts: int = 5
    jitter: float = 0
    retryable: tuple[type[Exception], ...] = (Exception,)
    permanent: tuple[type[Exception], ...] = (Permanent,)

    def __post_init__(self) -> None:
        check_number("first_wait", self.first_wait)
        check_number("longest_wait", self.longest_wait, self.first_wait)
        check_number("factor", self.factor, 1, 100)
        check_number("max_attempts", self.max_attempts, 1, whole=True)
        check_number("jitter", self.jitter, 0, 1)
        for name, kinds in (("retryable", self.retryable), ("permanent", self.permanent)):
            if not isinstance(kinds, tuple) or not all(_is_exception(kind) for kind in kinds):
                raise ValueError(f"{name} is {kinds!r}; it must be a tuple of exception types, such as (OSError,)")

    def wait(self, error: Exception, attempt: int) -> float | None:
        """Seconds until the next attempt after one that failed; None when there is none."""
        if not isinstance(error, Busy):
            curable = isinstance(error, self.retryable) and not isinstance(error, self.permanent)
            if not curable or attempt >= self.max_attempts:
                return None
        return self.back_off(attempt) * (1 - self.jitter * random.random())

    def back_off(self, attempt: int) -> float:
        """The longest wait after an attempt, in seconds."""
        return min(self.longest_wait, self.first_wait * self.factor ** min(attempt - 1, 100))

    def total_wait(self) -> float:
        """Seconds from the first attempt to the last, at least: the waits alone, when chance makes them short."""
        return sum(map(self.back_off, range(1, self.max_attempts))) * (1 - self.jitter)

    def outlasts(self, lease: float) -> bool:
        """Whether the last attempt comes after a lease, in seconds, whose holder died at the first one."""
        return self.total_wait() > lease


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
