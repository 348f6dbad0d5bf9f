"""Incident A over some minutes of traffic, to be run and watched: jobs sent twice while the API is busy.

`labkit.incidents.status_race` is the small one that can be searched.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from labkit import Lab, Trace, run
from labkit.lab import Service
from labkit.observe import print_event
from labkit.queues import VisibilityQueue
from labkit.workers import Job, Worker

QUEUE = "jobs"
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")


class Request(NamedTuple):
    """One job as it is asked for: when, its id, and how many seconds later its message is sent again; 0 for never."""

    at: float
    job: str
    again: float


@dataclass(frozen=True)
class Traffic:
    """An API sends jobs and is asked how they stand; four workers do them; a scenario.

    In a burst the API is slow to answer its own request to the queue, sends it again, and the job has two messages.

    Parameters
    ----------
    seconds: how long there is traffic.
    every: seconds between two jobs.
    bursts: the seconds at which a burst begins.
    burst_jobs: how many jobs a burst has; they come four a second.
    work_seconds: how long a job takes.
    """

    seconds: float = 180
    every: float = 5
    bursts: tuple[float, ...] = (62, 121)
    burst_jobs: int = 12
    work_seconds: float = 0.25

    def __call__(self, lab: Lab) -> None:
        """Build the world."""
        VisibilityQueue.create(lab.redis(), QUEUE, visibility_timeout=30)
        plan = self.plan
        lab.worker("api", submit, lab.redis(), plan, spared=True)
        lab.worker("status-api", answer, lab.redis(), plan, spared=True)
        for name in WORKERS:
            lab.worker(name, work, name, lab.redis(), lab.events, lab.section, self.work_seconds, forever=True)
        events = lab.events
        lab.always("one event for each job", lambda: len({call.key for call in events.calls}) == len(events.calls))

    @property
    def plan(self) -> tuple[Request, ...]:
        """The jobs that come, in order."""
        calm = [(number * self.every, 0.0) for number in range(int(self.seconds // self.every))]
        # The times that the API waits before it sends again: 10 to 20 ms, other ones for each job.
        busy = [(begin + number / 4 + 0.1, 1.0) for begin in self.bursts for number in range(self.burst_jobs)]
        found = []
        for number, (at, is_busy) in enumerate(sorted(calm + busy), 1):
            job = f"job-{number:03}"
            again = 0.010 + zlib.crc32(job.encode()) % 11 / 1_000
            found.append(Request(at, job, again if is_busy else 0.0))
        return tuple(found)

    def run(self, seed: int = 0) -> Trace:
        """Execute it; another seed draws other orders of what happens at the same moment."""
        return run(self, seed=seed)


def submit(r: redis.Redis, plan: tuple[Request, ...]) -> None:
    """The API: it marks each job as pending and sends its message; when the queue is slow to answer, once more."""
    queue = VisibilityQueue(r, QUEUE)
    print_event({"event": "queue.ready", "queue": QUEUE, "visibility_timeout": 30})
    now = 0.0
    for at, job, again in plan:
        time.sleep(max(at - now, 0))
        now = at + again
        r.set(f"status:{job}", "pending")
        for wait in (again, 0.0) if again else (0.0,):
            queue.send({"job_id": job, "event_id": f"{job}:completed"})
            print_event({"event": "job.enqueued", "queue": QUEUE, "job_id": job, "event_id": f"{job}:completed"})
            time.sleep(wait)


def answer(r: redis.Redis, plan: tuple[Request, ...]) -> None:
    """The API again: a second after each job was sent, somebody asks for its status. It looks at the cache alone."""
    now = 0.0
    for at, job, _ in plan:
        time.sleep(at + 1 - now)
        now = at + 1
        cached = r.get(f"cache:{job}")
        print_event({"event": "api.replied", "job_id": job, "status": 500 if cached is None else 200})


class Completion:
    """What a worker does with one job.

    Parameters
    ----------
    r: the worker's own connection.
    events: where the completion is published.
    section: marks the critical section, for pictures.
    seconds: how long the job takes.
    """

    def __init__(
        self, r: redis.Redis, events: Service, section: Callable[[str], AbstractContextManager[None]], seconds: float
    ) -> None:
        self.r, self.events, self.section, self.seconds = r, events, section, seconds

    def handle(self, job: Job) -> None:
        """Do the job."""
        self.r.set(f"status:{job.body['job_id']}", "in-progress")
        time.sleep(self.seconds)
        with self.section("complete"):
            self.complete(job)
        job.log("job.finished")

    def complete(self, job: Job) -> None:
        """Read the status, write the status, mend the cache, tell the world: nothing here is atomic."""
        key = job.body["job_id"]
        status: Any = self.r.get(f"status:{key}")
        job.log("status.read", status=status.decode())
        time.sleep(0.022)  # the result is stored
        if status == b"completed":
            return
        self.r.set(f"status:{key}", "completed")
        job.log("status.written", status="completed")
        if not self.r.set(f"cache:{key}", "completed", nx=True):
            self.r.delete(f"cache:{key}")  # an older status was cached: clear it
        self.events.publish(key)


def work(
    name: str,
    r: redis.Redis,
    events: Service,
    section: Callable[[str], AbstractContextManager[None]],
    seconds: float,
) -> None:
    """A worker's life."""
    handle = Completion(r, events, section, seconds).handle
    Worker(
        VisibilityQueue(r, QUEUE),
        handle,
        worker_id=name,
        deployment_id="release-7",
        wait=20,
        emit=lambda event: print_event({**event, "queue": QUEUE}),
    ).run()
