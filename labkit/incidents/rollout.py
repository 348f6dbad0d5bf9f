"""The deploy of incident B over several jobs, to be run and looked at: what a hand-over does to the jobs in hand.

It takes too many steps to be searched; `labkit.incidents.deploy` is the small one for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import redis

from labkit import Lab, Trace, run
from labkit.lab import Service
from labkit.queues import VisibilityQueue
from labkit.workers import Job, Worker
from labkit.workers.checks import check_number

OLD, NEW = ("old-1", "old-2"), ("new-1", "new-2")


@dataclass(frozen=True)
class Rollout:
    """Two old workers that are replaced by two new ones, while orders wait in the queue; a scenario.

    Each order gets its mail when its job begins, and its parcel when the job ends.

    Parameters
    ----------
    drains: whether SIGTERM means to finish the job in hand; otherwise it kills.
    jobs: how many orders there are.
    job_seconds: how long a job takes.
    visibility_timeout: seconds for which a received message is hidden.
    ready: when the new workers are ready and poll, in seconds since the start.
    deploy: when the old ones get SIGTERM.
    grace_period: seconds from SIGTERM to SIGKILL.
    heartbeat: whether a worker hides the message in hand anew, each third of the visibility timeout.
    old_receipts: what the receipt of an earlier delivery does; see `QueueRules`.

    Raises `ValueError` on a time or a number of orders that cannot be.
    """

    drains: bool = True
    jobs: int = 6
    job_seconds: float = 40
    visibility_timeout: float = 60
    ready: float = 50
    deploy: float = 60
    grace_period: float = 30
    heartbeat: bool = False
    old_receipts: str = "ignore"

    def __post_init__(self) -> None:
        check_number("jobs", self.jobs, 0, whole=True)
        for name in ("job_seconds", "visibility_timeout", "ready", "deploy", "grace_period"):
            check_number(name, getattr(self, name))

    def __call__(self, lab: Lab) -> None:
        """Build the world."""
        r = lab.redis()
        rules = {"visibility_timeout": self.visibility_timeout, "old_receipts": self.old_receipts}
        queue = VisibilityQueue.create(r, "orders", **rules)
        parcels = lab.service("parcels")
        orders = [f"order-{number}" for number in range(1, self.jobs + 1)]
        for order in orders:
            queue.send({"order_id": order})
        for name in (*OLD, *NEW):
            wait = self.ready if name in NEW else 0
            clients = lab.redis(), lab.mail, parcels, lab.section
            hidden = self.visibility_timeout if self.heartbeat else None
            arguments = name, *clients, self.job_seconds, self.drains, wait, hidden
            lab.worker(name, work, *arguments, forever=True, signals=int(name in OLD))
        began = time.time()
        lab.deadlines(queue.deadlines)
        lab.deadlines(lambda: [began + self.deploy, began + self.deploy + self.grace_period])
        lab.always("at most one mail for each order", lambda: all(lab.mail.count(order) <= 1 for order in orders))
        lab.at_end("a parcel for each order", lambda: all(parcels.count(order) >= 1 for order in orders))

    @property
    def faults(self) -> dict[float, str]:
        """When the old workers are told to stop, and when they are killed, as `run` is told."""
        said, killed = (" ".join(f"{kind}:{name}" for name in OLD) for kind in ("signal", "crash"))
        return {self.deploy: said, self.deploy + self.grace_period: killed}

    def run(self, seed: int = 0) -> Trace:
        """Execute it; `replay` with the trace's schedule does the same again."""
        return run(self, seed=seed, faults=self.faults)


def work(
    name: str,
    r: redis.Redis,
    mail: Service,
    parcels: Service,
    section: Callable[[str], AbstractContextManager[None]],
    seconds: float,
    drains: bool,
    wait: float,
    hidden: float | None,
) -> None:
    """A worker that starts up, and then polls for as long as it lives."""

    def handle(job: Job) -> None:
        order = job.body["order_id"]
        with section(order):
            mail.send(order)
            time.sleep(seconds)
            parcels.call(order)

    if wait:
        time.sleep(wait)
    Worker(VisibilityQueue(r, "orders"), handle, worker_id=name, drains=drains, wait=20, keep_hidden=hidden).run()
