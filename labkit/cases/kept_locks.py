"""Locks that stay when their holder is gone, and cures that take away the locks of the living."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from labkit import Lab
from labkit.cases.case import Case
from labkit.locks import AtomicLock, Renewal

LEASE = 30
REPORT = 40  # seconds that the report takes: longer than a lease
Task = Callable[[Lab, Any], bool]


def task_lock(lab: Lab, r: Any, flush: bool = False) -> bool:
    """The report under huey's lock, a hash field; `flush` is what its consumer does first when started with `-f`."""
    if flush:
        r.delete("huey.locks")
    if not r.hsetnx("huey.locks", "report", "1"):
        return False
    with lab.section("report"):
        time.sleep(REPORT)
        lab.mail.send("report")
    r.hdel("huey.locks", "report")
    return True


def leased(lab: Lab, r: Any, renewal: Callable[[Any], AbstractContextManager[Any]] = Renewal) -> bool:
    """The report under a lock that ends by itself, and that a thread renews while its holder lives."""
    lock = AtomicLock(r, "report", timeout=LEASE)
    if not lock.acquire(blocking=False):
        return False
    with renewal(lock), lab.section("report"):
        time.sleep(REPORT)
        lab.mail.send("report")
    lock.release()
    return True


def new_pod(lab: Lab, r: Any, task: Task) -> None:
    """Comes while the old pod may be at work, and again after its lease, if that was needed."""
    for _ in range(2):
        time.sleep(35)
        if task(lab, r):
            return


def deploy(lab: Lab, task: Task) -> None:
    """The old pod may be killed; the new one runs the same task."""
    lab.worker("old", task, lab, lab.redis())
    lab.worker("new", new_pod, lab, lab.redis(), task, spared=True)
    lab.always("one pod at a time writes the report", lambda: lab.inside("report") <= 1)
    lab.at_end("the report is written in the end", lambda: lab.mail.count("report") >= 1)


P17 = Case(
    id="P17",
    title="huey, sidekiq-unique-jobs: a lock without a time to live survives kill -9",
    sources=(
        "https://github.com/coleifer/huey/issues/308",
        "https://github.com/zoolutions/sidekiq-unique-jobs/issues/546",
        "https://github.com/zoolutions/sidekiq-unique-jobs/issues/691",
        "https://github.com/zoolutions/sidekiq-unique-jobs/issues/486",
    ),
    mechanism="Only its holder deletes the lock; once that process is killed, every later run finds it taken.",
    fix="A lease that ends by itself, and a thread that renews it for as long as the job runs.",
    broken=lambda lab: deploy(lab, task_lock),
    fixed=lambda lab: deploy(lab, leased),
    budgets={"crashes": 1},
    known=6,
)

P18 = Case(
    id="P18",
    title="mlflow: locks flushed at start are those of live replicas",
    sources=("https://github.com/mlflow/mlflow/pull/22653",),
    mechanism="A pod that starts deletes all locks as left over, although the pod that it replaces still works.",
    fix="Never flush what others share: a lease ends by itself when its holder is dead, and only then.",
    broken=lambda lab: deploy(lab, partial(task_lock, flush=True)),
    fixed=lambda lab: deploy(lab, leased),
    budgets={"crashes": 1},
)


# ---- Laravel's unique jobs: at most one copy of a job waits in the queue, from its dispatch until it is started

Release = Callable[[Any, int, str], Any]
_RELEASE = """-- release if mine
if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
"""


def release_always(r: Any, attempt: int, owner: str) -> None:
    """As it was: whoever starts a copy deletes the lock."""
    r.delete("unique")


def release_at_first(r: Any, attempt: int, owner: str) -> None:
    """As it was mended first: only a first attempt deletes the lock."""
    if attempt == 1:
        r.delete("unique")


def release_own(r: Any, attempt: int, owner: str) -> None:
    """As it was mended for good: a copy deletes the lock that it was dispatched with, if it is still there."""
    r.register_script(_RELEASE)(["unique"], [owner])


def dispatch(r: Any) -> None:
    """Three times, queue the job unless a copy waits already; an entry says which attempt it is, and whose lock."""
    for owner in ("x", "y", "z"):
        if r.set("unique", owner, nx=True):
            r.rpush("queue", f"1:{owner}")


def work(r: Any, release: Release) -> None:
    """Run three jobs: one that overlaps with another is put back unstarted, one that fails is put back to retry."""
    for _ in range(3):
        attempt, owner = r.blpop(["queue"])[1].split(":")
        overlaps = r.exists("overlapping")
        if not overlaps:
            release(r, int(attempt), owner)
        if overlaps or attempt == "1":  # each first attempt fails
            r.rpush("queue", f"2:{owner}")


def unique_jobs(lab: Lab, release: Release) -> None:
    """P dispatches, A works; another job of the same kind is running until O, which runs it, is done."""
    seen = lab.redis(decode_responses=True)
    seen.set("overlapping", "yes")
    lab.worker("P", dispatch, lab.redis())
    lab.worker("A", work, lab.redis(decode_responses=True), release, forever=True)
    lab.worker("O", lambda r: r.delete("overlapping"), lab.redis())

    def dispatched(entries: list[Any]) -> int:
        return sum(entry.startswith("1:") for entry in entries)

    lab.always("at most one dispatched copy waits", lambda: dispatched(seen.lrange("queue", 0, -1)) <= 1)
    lab.at_end("no lock is left by a job that is gone", lambda: not seen.exists("unique") or seen.llen("queue") > 0)


# The first mend trades the second copy for a lock that stays: a copy that was put back unstarted is at its second
# attempt when it starts, and its lock is nobody's to delete any more.
P15 = Case(
    id="P15",
    title="Laravel's unique jobs: a retry releases the lock of a later dispatch",
    sources=(
        "https://github.com/laravel/framework/pull/59567",
        "https://github.com/laravel/framework/issues/60042",
    ),
    mechanism="The lock is deleted when a copy starts; its retry, which holds no lock, deletes that of the next copy.",
    fix="The owner's token travels with the job, and a release compares it; to count attempts instead keeps locks.",
    broken=lambda lab: unique_jobs(lab, release_always),
    fixed=lambda lab: unique_jobs(lab, release_own),
)
