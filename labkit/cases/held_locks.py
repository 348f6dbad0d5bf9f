"""Locks that let a second holder in, or never let anybody in again."""

from __future__ import annotations

import threading
import time
from typing import Any

import redis

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.locks import AtomicLock, CheckThenSetLock, GetThenDeleteLock, SetnxThenExpireLock, UnownedLock
from labkit.locks.lock import Lock

ONE = "at most one worker is in the critical section"
LEASE = 30


def job(lab: Lab, r: redis.Redis, lock: Any) -> None:
    """Work in a critical section, if the lock is free."""
    if lock.acquire(blocking=False):
        with lab.section("critical"):
            r.get("data")
        lock.release()


def job_later(lab: Lab, r: redis.Redis, lock: Any) -> None:
    """The same, when the first lease has ended."""
    time.sleep(LEASE)
    job(lab, r, lock)


def contend(lab: Lab, kind: type[Lock], workers: str = "AB") -> None:
    """Workers that all want the same lock."""
    for name in workers:
        r = lab.redis()
        lab.worker(name, job, lab, r, kind(r, "lock", timeout=LEASE))
    lab.always(ONE, lambda: lab.inside("critical") <= 1)


P10 = Case(
    id="P10",
    title="Celery's cookbook lock: get, then set",
    sources=(
        "https://github.com/celery/celery/issues/87",
        "https://github.com/sebleier/django-redis-cache/pull/34",
        "https://github.com/cameronmaske/celery-once/pull/60",
        "https://github.com/celery/celery/pull/3259",
    ),
    mechanism="Two workers both read that the lock is free before either has set it.",
    fix="One command that sets the key only if it is absent.",
    broken=lambda lab: contend(lab, CheckThenSetLock),
    fixed=lambda lab: contend(lab, AtomicLock),
    known=6,
)


# ---- a holder that dies


def do_once(lab: Lab, r: redis.Redis, lock: Lock, arrives: float) -> None:
    """A job of which it matters that somebody does it."""
    if arrives:
        time.sleep(arrives)
    with lab.section("alive"):
        if lock.acquire(blocking=False):
            r.set("job", "done")
            lock.release()


def death(lab: Lab, kind: type[Lock]) -> None:
    """A may die with the lock; B comes when any lease has ended."""
    seen = lab.redis()
    for name, arrives in (("A", 0), ("B", 2 * LEASE)):
        r = lab.redis()
        lab.worker(name, do_once, lab, r, kind(r, "lock", timeout=LEASE), arrives, spared=name == "B")
    lab.always("the lock of a dead worker has a time to live", lambda: seen.ttl("lock") != -1 or lab.inside("alive"))
    lab.at_end("the job is done in the end", lambda: seen.get("job") == b"done")


P11 = Case(
    id="P11",
    title="SETNX, then EXPIRE: a lock that outlives its dead holder",
    sources=(
        "https://github.com/laravel/horizon/issues/1738",
        "https://github.com/redis/redis-py/issues/554",
        "https://github.com/redis/redis-py/pull/902",
        "https://github.com/getsentry/sentry/pull/1509",
        "https://github.com/lukas-krecan/ShedLock/issues/65",
    ),
    mechanism="A worker that dies after it took the lock, and before it gave the key a lease, keeps it for ever.",
    fix="One command that takes the lock together with its lease: SET NX with EX or PX.",
    broken=lambda lab: death(lab, SetnxThenExpireLock),
    fixed=lambda lab: death(lab, AtomicLock),
    budgets={"crashes": 1},
    known=3,
)


# ---- a holder that comes too late to release


class UncheckedTokenLock(AtomicLock):
    """Has an owner's token like the sound lock, and never looks at it when it releases."""

    def do_release(self, token: bytes) -> bool:
        self.redis.delete(self.name)
        return True


def release_only(lock: Lock) -> None:
    """A job that is done: its last act is to give back the lock."""
    if lock.acquire(blocking=False):
        lock.release()


def late_release(lab: Lab, kind: type[Lock]) -> None:
    """A is done, and may be paused before it releases; B and C come when A's lease ends, and are never paused."""
    for name in "ABC":
        r = lab.redis()
        lock = kind(r, "lock", timeout=LEASE)
        if name == "A":
            lab.worker(name, release_only, lock)
        else:
            lab.worker(name, job_later, lab, r, lock, spared=True)
    lab.always(ONE, lambda: lab.inside("critical") <= 1)


P12 = Case(
    id="P12",
    title="litellm PodLockManager: GET, compare, DEL",
    sources=("https://github.com/BerriAI/litellm/issues/21225",),
    mechanism="Between the look at the owner and the delete the lease ends, and the next pod's lock is deleted.",
    fix="Compare and delete in one step: a script, or DELEX with IFEQ.",
    broken=lambda lab: late_release(lab, GetThenDeleteLock),
    fixed=lambda lab: late_release(lab, AtomicLock),
    budgets={"pauses": 1},
    known=6,
)

# What was merged is the lock of P12, which breaks within the same bounds, one step later.
P13 = Case(
    id="P13",
    title="Superset: the same value for every holder, deleted by whoever is done",
    sources=("https://github.com/apache/superset/pull/43462",),
    mechanism="A holder whose lease has ended deletes the lock of its successor, since nothing tells the two apart.",
    fix="A token for each acquisition, compared and deleted in one step; the reviewed fix did it in two, which is P12.",
    broken=lambda lab: late_release(lab, UnownedLock),
    fixed=lambda lab: late_release(lab, AtomicLock),
    budgets={"pauses": 1},
    known=5,
)

P14 = Case(
    id="P14",
    title="nexspence distlock: a token that is written and never compared",
    sources=(
        "https://github.com/nexspence/nexspence/issues/223",
        "https://github.com/nexspence/nexspence/pull/226",
        "https://github.com/kent8192/reinhardt-web/issues/2714",
    ),
    mechanism="The lock knows its owner, but the release deletes the key without asking whose it is.",
    fix="A release that compares the token and deletes in one script.",
    broken=lambda lab: late_release(lab, UncheckedTokenLock),
    fixed=lambda lab: late_release(lab, AtomicLock),
    budgets={"pauses": 1},
    known=5,
)


# ---- one lock object for two threads


def two_threads(lab: Lab, r: redis.Redis, thread_local: bool) -> None:
    """One process whose threads share a lock of redis-py: the second one comes when the first one's lease ends."""
    lock = r.lock("lock", timeout=LEASE, thread_local=thread_local)
    threading.Thread(target=job_later, args=(lab, r, lock), name="second").start()
    if lock.acquire(blocking=False):
        r.get("data")  # all that is left to do
        lock.release()


def shared_lock_object(lab: Lab, fixed: bool) -> None:
    """A is two threads with one lock object; B, another process, comes when A's lease ends, and is never paused."""
    lab.worker("A", two_threads, lab, lab.redis(), fixed)
    r = lab.redis()
    lab.worker("B", job_later, lab, r, AtomicLock(r, "lock", timeout=LEASE), spared=True)
    lab.always(ONE, lambda: lab.inside("critical") <= 1)


# The last of the reports is of a release whose request never arrives, and whose token is gone when it is repeated. In
# the lab a request whose reply is lost has always taken effect, so there is nothing left to release.
P16 = Case(
    "P16",
    "redis-py: one Lock object in several threads",
    (
        "https://github.com/redis/redis-py/issues/416",
        "https://github.com/redis/redis-py/pull/491",
        "https://github.com/redis/redis-py/pull/4258",
    ),
    "The second thread's token overwrites the first one's in the object they share, and the first releases with it.",
    "A token for each thread, which is redis-py's default today (`thread_local=True`).",
    *in_both(shared_lock_object),
    budgets={"pauses": 1},
)
