"""Incident A, the status race: a job is done while its status says `in-progress`; its event goes out twice, or never.

An API puts a job on a queue, answers late, and its client asks again: two messages for one job. Each worker marks the
job as started, does it, reads the status, and completes it with an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import LockError

from labkit import Lab
from labkit.idempotency import Outbox, Relay, transaction
from labkit.incidents.ladder import Fault, Fix, Incident
from labkit.locks import AtomicLock, Lock, UnownedLock
from labkit.queues import VisibilityQueue

JOB, LEASE, VISIBILITY = "job-1", 30, 30
COMPLETE = "UPDATE jobs SET status = 'completed' WHERE id = ?"
COMPLETE_ONCE = COMPLETE + " AND status <> 'completed'"
START = "UPDATE jobs SET status = 'in-progress' WHERE id = ?"
START_ONCE = START + " AND status <> 'completed'"


class Completion:
    """What a worker does with one job, with the fixes that are in place.

    Parameters
    ----------
    r, db: the worker's own connections to Redis and to the database.
    publish: publishes the event of a completed job.
    fixes: the names of the fixes.
    seconds: how long the job takes.
    """

    def __init__(
        self, r: redis.Redis, db: Any, publish: Callable[[str], object], fixes: frozenset[str], seconds: float
    ) -> None:
        self.r, self.db, self.publish, self.fixes, self.seconds = r, db, publish, fixes, seconds
        self.outbox = Outbox(db)

    def handle(self, job: str) -> bool:
        """Do the job; False when another worker is on it."""
        self.execute(START_ONCE if self.fixes & {"guard", "one transaction"} else START, job)
        if self.seconds:
            time.sleep(self.seconds)
        if not self.fixes & {"lock", "owner"}:
            self.complete(job)
            return True
        lock = self.lock_for(job)
        if not lock.acquire(blocking=False):
            return False
        try:
            self.complete(job)
        finally:
            with suppress(LockError):
                lock.release()
        return True

    def lock_for(self, job: str) -> Lock:
        """The lock around reading and writing the status of a job."""
        return (AtomicLock if "owner" in self.fixes else UnownedLock)(self.r, f"lock:{job}", timeout=LEASE)

    def complete(self, job: str) -> None:
        """Write the status, and tell the world."""
        if "one transaction" in self.fixes:
            with transaction(self.db):
                if self.db.execute(COMPLETE_ONCE, (job,)).rowcount:
                    self.outbox.add(f"{job}:completed", now=0)
            return
        (status,) = self.db.execute("SELECT status FROM jobs WHERE id = ?", (job,)).fetchone()
        if status == "completed" and "guard" in self.fixes:
            return
        self.execute(COMPLETE, job)
        self.publish(job)

    def execute(self, statement: str, job: str) -> None:
        """One statement in a transaction of its own."""
        with transaction(self.db):
            self.db.execute(statement, (job,))


def work(queue: VisibilityQueue, completion: Completion, after: float, receives: int) -> None:
    """Poll a few times, each time when a message may be visible again."""
    for _ in range(receives):
        time.sleep(after)
        for message in queue.receive():
            done = completion.handle(message.body)
            if done or "busy" not in completion.fixes:
                queue.delete(message.receipt_handle)


def build(
    lab: Lab,
    fixes: frozenset[str],
    messages: int = 1,
    seconds: float = 0,
    deploy: bool = False,
    recovery: bool = True,
) -> None:
    """The world of the incident.

    Parameters
    ----------
    lab: where it is built.
    fixes: the names of the fixes in place.
    messages: how many messages there are for the one job.
    seconds: how long the job takes.
    deploy: whether worker A is an old instance that gets SIGTERM.
    recovery: whether a worker comes later and finds what is left, and a second relay.
    """
    r, db = lab.redis(), lab.sql()
    queue = VisibilityQueue.create(r, "jobs", visibility_timeout=VISIBILITY)
    db.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT NOT NULL)")
    db.execute("INSERT INTO jobs VALUES (?, 'queued')", (JOB,))
    Outbox(db).create()
    for _ in range(messages):
        queue.send(JOB)
    events = lab.service("bus", deduplicates="event id" in fixes)

    def publish(job: str) -> object:
        return events.call(job, idempotency_key=f"{job}:completed" if "event id" in fixes else None)

    def status() -> str:
        return str(db.execute("SELECT status FROM jobs").fetchone()[0])

    def worker(name: str, after: float, receives: int, **options: Any) -> None:
        own = lab.redis()
        completion = Completion(own, lab.sql(), publish, fixes, seconds)
        lab.worker(name, work, VisibilityQueue(own, "jobs"), completion, after, receives, **options)

    worker("A", 0, 1, signals=int(deploy))
    worker("B", 0, 1)
    if recovery:
        worker("later", VISIBILITY + 10, 2, spared=True)
    if "one transaction" in fixes:
        lab.worker("relay", relay, lab.sql(), publish, 4 * VISIBILITY, forever=True)
        if recovery:
            lab.worker("standby", relay, lab.sql(), publish, 5 * VISIBILITY, forever=True, spared=True)
    lab.deadlines(queue.deadlines)
    lab.always("the event goes out at most once", lambda: events.count(JOB) <= 1)
    lab.always(
        "a completed job stays completed",
        lambda before, now: before != "completed" or now == "completed",
        remember=status,
    )
    lab.at_end("the job is completed", lambda: status() == "completed")
    lab.at_end("the event of a completed job went out", lambda: status() != "completed" or events.count(JOB) >= 1)


def relay(db: Any, publish: Callable[[str], object], after: float) -> None:
    """Publish what the outbox has, again and again, from some time on."""
    tell = Relay(Outbox(db), lambda event: publish(event.id.partition(":")[0]))
    while True:
        time.sleep(after)
        tell.run_once()


STATUS_RACE = Incident(
    name="the status race",
    fixes=(
        Fix("lock", "A lock for the job, SET NX EX, around reading and writing the status."),
        Fix("guard", "Never write a status once it is `completed`."),
        Fix("owner", "Release a lock only if it is one's own.", replaces=("lock",)),
        Fix("busy", "A busy lock is not a finished job: leave its message to come again."),
        Fix(
            "one transaction",
            "Compare and set the status, and add the event to an outbox, in one transaction; a relay publishes.",
            replaces=("owner", "guard", "busy"),
        ),
        Fix("event id", "Consumers tell by the event's id that they have had it."),
    ),
    faults=(
        Fault("at once", {}, {"messages": 2}),
        Fault("slow job", {}, {"seconds": 45}),
        Fault("pause", {"pauses": 1}, {"messages": 2, "recovery": False}),
        Fault("crash", {"crashes": 1}),
        Fault("lost reply", {"lost_replies": 1}),
        Fault("deploy", {"signals": 1, "crashes": 1}, {"deploy": True}),
    ),
    build=build,
)
