"""The staging test of incident A as a scenario: an API whose clients ask twice, a queue, workers, and a deploy midway.

The same scenario is small enough to be searched (one job, two workers), and runs for real with a hundred jobs and ten
worker processes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from labkit import Lab
from labkit.idempotency import Outbox, Relay, transaction
from labkit.incidents.status_race import Completion
from labkit.lab import Service
from labkit.locks import AtomicLock, CheckThenSetLock, Lock, UnownedLock
from labkit.observe import print_event
from labkit.queues import VisibilityQueue
from labkit.workers import Busy, Job, RetryPolicy, Worker

BUS, API = "bus", "http"
QUEUE, DONE = "jobs", "done"  # the queue's name, and the key of the list that tells the API what is done
STATUS = "SELECT status FROM jobs WHERE id = ?"
TWICE = "no event goes out twice"


@dataclass(frozen=True)
class Program:
    """What the workers run.

    Parameters
    ----------
    name: its name.
    says: what it does, in one sentence.
    locked, unlocked: the fixes of the incident that are in place, with its lock and with the lock taken away.
    lock: its lock.
    """

    name: str
    says: str
    locked: frozenset[str]
    unlocked: frozenset[str]
    lock: Callable[..., Lock] = UnownedLock

    def fixes(self, lock: bool) -> frozenset[str]:
        """The fixes that are in place."""
        return self.locked if lock else self.unlocked


_SOUND = frozenset({"one transaction", "event id", "drain"})
PROGRAMS = {
    program.name: program
    for program in (
        Program("naive", "Reads the status, writes it, and publishes.", frozenset(), frozenset()),
        Program(
            "naive lock",
            "The same with a guard, under a lock that is looked at and then taken.",
            frozenset({"lock", "guard"}),
            frozenset({"guard"}),
            CheckThenSetLock,
        ),
        Program(
            "article",
            "The article's fix: SET NX EX, a guard, and a release that asks nobody.",
            frozenset({"lock", "guard"}),
            frozenset({"guard"}),
        ),
        Program(
            "corrected",
            "Compare and set the status, and add the event to an outbox, in one transaction; a relay publishes.",
            _SOUND | {"owner", "busy"},
            _SOUND,
            AtomicLock,
        ),
    )
}


class StagedCompletion(Completion):
    """What a worker does with a job in staging.

    Parameters
    ----------
    program: whose lock it takes.
    lease: for how many seconds.
    arguments: as for `Completion`.
    """

    def __init__(self, program: Program, lease: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.program, self.lease = program, lease

    def lock_for(self, job: str) -> Lock:
        return self.program.lock(self.r, f"lock:{job}", timeout=self.lease)

    def work(self, job: Job) -> None:
        """Do the job of a message; `Busy` when another worker is on it and this one knows better than to say `done`."""
        if not self.handle(job.body["job_id"]) and "busy" in self.fixes:
            raise Busy(f"another worker is on {job.body['job_id']}")


@dataclass(frozen=True)
class Staging:
    """A staging environment; a scenario.

    Parameters
    ----------
    program: what the workers run, by name.
    lock: whether its lock is there.
    jobs: how many jobs clients ask for; each asks twice, since the first answer is late; see `serve`.
    workers: how many workers there are; with a deploy, so many old ones and as many new ones.
    job_seconds: how long a job takes.
    visibility: for how many seconds a received message is hidden; a lock lasts as long.
    deploy: whether there are new workers too.
    small: whether it is to be searched: workers receive once, the jobs are there from the start, and nobody asks how
        they are.
    recovery: whether, in a small one, somebody comes later, when what a crash leaves behind is visible and unlocked.
    """

    program: str = "corrected"
    lock: bool = True
    jobs: int = 100
    workers: int = 10
    job_seconds: float = 0.01
    visibility: float = 2
    deploy: bool = False
    small: bool = False
    recovery: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The jobs' names."""
        return tuple(f"job-{number}" for number in range(1, self.jobs + 1))

    def generation(self, name: str) -> tuple[str, ...]:
        """The names of the `old` workers, or of the `new` ones."""
        return tuple(f"{name}-{number}" for number in range(1, self.workers + 1))

    def __call__(self, lab: Lab) -> None:
        """Build the world."""
        fixes = PROGRAMS[self.program].fixes(self.lock)
        r, db = lab.redis(), lab.sql()
        queue = VisibilityQueue.create(r, QUEUE, visibility_timeout=self.visibility)
        db.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT NOT NULL)")
        Outbox(db).create()
        bus, http = lab.service(BUS, deduplicates="event id" in fixes), lab.service(API)
        if self.small:
            for job in self.names:
                db.execute("INSERT INTO jobs VALUES (?, 'pending')", (job,))
                queue.send({"job_id": job})
                queue.send({"job_id": job})
        else:
            times_out = 1.5 * self.job_seconds
            lab.worker("api", serve, lab.redis(), lab.sql(), http, self.names, times_out, spared=True)
            lab.worker("status", answer, lab.redis(), lab.sql(), http, spared=True, forever=True)
        for name in self.generation("old") + (self.generation("new") if self.deploy else ()):
            completion = self._completion(lab, bus, fixes)
            lab.worker(name, work, name, completion, self.small, forever=not self.small, signals=int(self.deploy))
        if self.small and self.recovery:
            completion = self._completion(lab, bus, fixes)
            lab.worker("later", work, "later", completion, True, 3 * self.visibility, 4, spared=True)
        if "one transaction" in fixes:
            tell = Publisher(bus, None if self.small else lab.redis(), True)
            lab.worker("relay", relay, lab.sql(), tell, 0.02, spared=True, forever=True)
        lab.deadlines(queue.deadlines)
        self._state_what_must_hold(lab, db, bus, http)

    def _completion(self, lab: Lab, bus: Service, fixes: frozenset[str]) -> StagedCompletion:
        """What one worker does with a job, over connections of its own."""
        r, program = lab.redis(), PROGRAMS[self.program]
        tell = Publisher(bus, None if self.small else r, "event id" in fixes)
        return StagedCompletion(program, self.visibility, r, lab.sql(), tell, fixes, self.job_seconds)

    def _state_what_must_hold(self, lab: Lab, db: Any, bus: Service, http: Service) -> None:
        def statuses() -> list[str]:
            return [status for (status,) in db.execute("SELECT status FROM jobs").fetchall()]

        def undone() -> set[str]:
            return {job for (job,) in db.execute("SELECT id FROM jobs WHERE status <> 'completed'").fetchall()}

        def told() -> set[str]:
            return {call.key for call in bus.calls}

        lab.always(TWICE, lambda: max(Counter(call.key for call in bus.calls).values(), default=0) <= 1)
        lab.at_end("no job is left pending", lambda: statuses() == ["completed"] * self.jobs)
        lab.at_end("no event is lost", lambda: told() == set(self.names))
        if self.small:
            lab.always("a job that is told to be done has that status", lambda: not told() & undone())
        else:
            lab.always("no answer is 500", lambda: not any(("status", "500") in call.fields for call in http.calls))

    def is_idle(self, r: redis.Redis, db: Any) -> bool:
        """Whether all has been asked for, and nothing is left to do; with connections of an observer."""
        if db.execute("SELECT COUNT(*) FROM jobs").fetchone()[0] < self.jobs or r.llen(DONE):
            return False
        found = VisibilityQueue(r, QUEUE).attributes()
        if found.sent < 2 * self.jobs or found.visible or found.in_flight or found.delayed:
            return False
        return not Outbox(db).pending(1)

    def completed(self, db: Any) -> int:
        """How many jobs are completed."""
        return int(db.execute("SELECT COUNT(*) FROM jobs WHERE status = 'completed'").fetchone()[0])


class Publisher:
    """Publishes the event of a completed job, and tells the API.

    Parameters
    ----------
    bus: the event bus.
    r: where the API listens; None when there is none.
    with_id: whether the event has an id that is the same each time.
    """

    def __init__(self, bus: Service, r: redis.Redis | None, with_id: bool) -> None:
        self.bus, self.r, self.with_id = bus, r, with_id

    def __call__(self, job: str) -> None:
        """Publish."""
        self.bus.call(job, idempotency_key=f"{job}:completed" if self.with_id else None)
        if self.r is not None:
            self.r.rpush(DONE, job)


def serve(r: redis.Redis, db: Any, http: Service, jobs: tuple[str, ...], times_out: float) -> None:
    """The API that takes jobs.

    Its answers are late, so each client asks again: every other one at once, the rest after so many seconds, when the
    job may just be done.
    """
    queue = VisibilityQueue(r, QUEUE)
    for number, job in enumerate(jobs):
        with transaction(db):
            db.execute("INSERT INTO jobs VALUES (?, 'pending')", (job,))
        queue.send({"job_id": job})
        queue.send({"job_id": job}, delay=times_out * (number % 2))
        http.call(job, status="202")


def answer(r: redis.Redis, db: Any, http: Service) -> None:
    """The API that says how jobs are, each when it has heard that it is done; 500 when its status says otherwise."""
    while True:
        told = r.blpop([DONE], timeout=1)
        if told is not None:
            job = as_text(told[1])
            (status,) = db.execute(STATUS, (job,)).fetchone()
            http.call(job, status="200" if status == "completed" else "500")


def work(name: str, completion: StagedCompletion, once: bool, after: float = 0, receives: int = 1) -> None:
    """A worker: polls, and drains when told to stop, if that fix is in place; or receives so often, some time on."""
    if after:
        time.sleep(after)
    Worker(
        VisibilityQueue(completion.r, QUEUE),
        completion.work,
        worker_id=name,
        deployment_id=name.partition("-")[0],
        drains="drain" in completion.fixes,
        retry=RetryPolicy(first_wait=0.05, longest_wait=1),
        wait=0 if once else 1,
        emit=print_event,
    ).run(max_jobs=receives if once else None, stop_when_empty=once)


def as_text(word: bytes | str) -> str:
    """A reply as text, whether or not the client decodes replies."""
    return word.decode() if isinstance(word, bytes) else word


def relay(db: Any, publish: Callable[[str], None], pause: float) -> None:
    """Publish what the outbox has, again and again."""
    tell = Relay(Outbox(db), lambda event: publish(event.id.partition(":")[0]))
    while True:
        if not tell.run_once():
            time.sleep(pause)
