"""One order and two workers that poll: the heart of incident B, small enough to be searched at once."""

from __future__ import annotations

import time
from dataclasses import dataclass

import redis

from labkit import Lab
from labkit.lab import Service
from labkit.queues import VisibilityQueue
from labkit.workers import Job, Worker

ONCE = "at most one mail for the order"


@dataclass(frozen=True)
class OneOrder:
    """Two workers poll a queue with one order; its mail goes out when the job ends. A scenario.

    Parameters
    ----------
    job_seconds: how long the job takes.
    visibility_timeout: seconds for which a received message is hidden.
    heartbeat: whether a worker hides its message anew, each third of the visibility timeout.
    """

    job_seconds: float = 45
    visibility_timeout: float = 30
    heartbeat: bool = False

    def __call__(self, lab: Lab) -> None:
        """Build the world."""
        r = lab.redis()
        queue = VisibilityQueue.create(r, "orders", visibility_timeout=self.visibility_timeout)
        queue.send({"order_id": "order-1"})
        for name in "AB":
            hidden = self.visibility_timeout if self.heartbeat else None
            arguments = name, lab.redis(), lab.mail, self.job_seconds, hidden
            lab.worker(name, work, *arguments, forever=True)
        lab.deadlines(queue.deadlines)
        lab.always(ONCE, lambda: lab.mail.count("order-1") <= 1)


def work(name: str, r: redis.Redis, mail: Service, seconds: float, hidden: float | None) -> None:
    """A worker that waits for one job, and does it."""

    def handle(job: Job) -> None:
        time.sleep(seconds)
        mail.send(job.body["order_id"])

    Worker(VisibilityQueue(r, "orders"), handle, worker_id=name, drains=False, wait=20, keep_hidden=hidden).run(
        max_jobs=1
    )
