"""Locks that let a second holder in, or never let anybody in again."""

from __future__ import annotations

import redis

from labkit import Lab
from labkit.cases.case import Case
from labkit.locks import AtomicLock, CheckThenSetLock
from labkit.locks.lock import Lock

ONE = "at most one worker is in the critical section"


def job(lab: Lab, r: redis.Redis, lock: Lock) -> None:
    """Work in a critical section, if the lock is free."""
    if lock.acquire(blocking=False):
        with lab.section("critical"):
            r.get("data")
        lock.release()


def contend(lab: Lab, kind: type[Lock], workers: str = "AB") -> None:
    """Workers that all want the same lock."""
    for name in workers:
        r = lab.redis()
        lab.worker(name, job, lab, r, kind(r, "lock", timeout=30))
    lab.always(ONE, lambda: lab.inside("critical") <= 1)


P10 = Case(
    id="P10",
    title="Celery's cookbook lock: get, then set",
    sources=("https://github.com/celery/celery/issues/87", "https://github.com/celery/celery/pull/3259"),
    mechanism="Two workers both read that the lock is free before either has set it.",
    fix="One command that sets the key only if it is absent.",
    broken=lambda lab: contend(lab, CheckThenSetLock),
    fixed=lambda lab: contend(lab, AtomicLock),
    known=6,
)
