"""The world of the exercises on logs: an order that is begun twice, for one reason or another, and what was logged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from labkit.execution import run
from labkit.lab import Lab, Scenario
from labkit.observe import logs, print_event
from labkit.queues import VisibilityQueue
from labkit.trace import Trace
from labkit.workers import Job, RetryPolicy, Worker

JOB, TIMEOUT = "q-7801", 30


def _sell(queue: VisibilityQueue, times: int, orders: int) -> None:
    for number in range(times):
        if number:
            time.sleep(TIMEOUT)
        for order in range(1, orders + 1):
            ids = {"job_id": f"q-{7800 + order}", "event_id": f"evt-{900 + order}", "order_id": f"ord-{100 + order}"}
            queue.send(ids)
            print_event({"event": "job.enqueued", **ids})


def _serve(name: str, queue: VisibilityQueue, seconds: Sequence[float], fails: bool, wait: float, most: int) -> None:
    """A worker that takes so many jobs; one takes so many seconds at the first attempt, and so many later."""

    def handle(job: Job) -> None:
        first = job.attempt == 1
        time.sleep(seconds[not first])
        if fails and first:
            raise ConnectionError("the mail server does not answer")

    if wait:
        time.sleep(wait)
    retry = RetryPolicy(first_wait=TIMEOUT)
    options: dict[str, Any] = {
        "worker_id": name,
        "deployment_id": "v1",
        "wait": 20,
        "drains": False,
        "emit": print_event,
    }
    Worker(queue, handle, retry=retry, **options).run(max_jobs=most)


def shop(
    seconds: Sequence[float] = (1, 1),
    fails: bool = False,
    times: int = 1,
    orders: int = 1,
    workers: int = 2,
    most: int = 2,
) -> Scenario:
    """Orders, and workers who come one after the other.

    Parameters
    ----------
    seconds: how long its first attempt takes, and any later one.
    fails: whether the first attempt fails.
    times: how often each order is sent.
    orders: how many there are.
    workers: how many there are, one or two.
    most: how many jobs each takes.
    """

    def orders_in_a_queue(lab: Lab) -> None:
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT, old_receipts="delete")
        lab.worker("api", _sell, VisibilityQueue(lab.redis(), "orders"), times, orders)
        for name, wait in (("old", 0), ("new", 1))[:workers]:
            own = VisibilityQueue(lab.redis(), "orders")
            lab.worker(name, _serve, name, own, seconds, fails, wait, most, forever=True)
        lab.deadlines(queue.deadlines)

    return orders_in_a_queue


@lru_cache
def executed(name: str) -> Trace:
    """The execution of that name; the same each time."""
    scenario, faults = WORLDS[name]
    return run(scenario, seed=1, polls=1, faults=faults)


def log_of(name: str) -> list[dict[str, Any]]:
    """What was logged there, a new list each time, so that nobody can spoil it."""
    return [dict(line) for line in logs(executed(name))]


WORLDS: dict[str, tuple[Scenario, dict[float, str]]] = {
    "slow": (shop(seconds=(45, 1)), {}),
    "fails": (shop(fails=True), {}),
    "fails late": (shop(seconds=(20, 1), fails=True, workers=1), {}),
    "sent twice": (shop(times=2), {}),
    "fails, goes on elsewhere": (shop(seconds=(20, 1), fails=True, most=1), {}),
    "two orders": (shop(seconds=(20, 20), orders=2), {}),
    "killed": (shop(seconds=(20, 20)), {1: "crash:old"}),
}
