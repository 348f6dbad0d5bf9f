"""Exercise: tell from the log of one job why it was begun twice: sent twice, a retry, or a redelivery."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from labkit.execution import run
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_query import Case, WriteQuery
from labkit.lab import Lab, Scenario
from labkit.observe import logs, print_event
from labkit.queues import VisibilityQueue
from labkit.trace import Trace
from labkit.workers import Job, RetryPolicy, Worker

JOB, TIMEOUT = "q-7801", 30
Lines = Sequence[dict[str, Any]]


def _sell(queue: VisibilityQueue, times: int) -> None:
    for number in range(times):
        if number:
            time.sleep(TIMEOUT)
        ids = {"job_id": JOB, "event_id": "evt-901", "order_id": "ord-101"}
        queue.send(ids)
        print_event({"event": "job.enqueued", **ids})


def _serve(name: str, queue: VisibilityQueue, seconds: Sequence[float], fails: bool, wait: float) -> None:
    """A worker; its job takes so many seconds at the first attempt, and so many later."""

    def handle(job: Job) -> None:
        first = job.attempt == 1
        time.sleep(seconds[not first])
        if fails and first:
            raise ConnectionError("the mail server does not answer")

    if wait:
        time.sleep(wait)
    retry = RetryPolicy(first_wait=TIMEOUT)
    Worker(queue, handle, worker_id=name, deployment_id="v1", wait=20, drains=False, retry=retry, emit=print_event).run(
        max_jobs=2
    )


def shop(seconds: Sequence[float] = (1, 1), fails: bool = False, times: int = 1, alone: bool = False) -> Scenario:
    """An order, and two workers, or one alone.

    Parameters
    ----------
    seconds: how long its first attempt takes, and any later one.
    fails: whether the first attempt fails.
    times: how often the order is sent.
    alone: whether there is one worker.
    """

    def one_order(lab: Lab) -> None:
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT, old_receipts="delete")
        lab.worker("api", _sell, VisibilityQueue(lab.redis(), "orders"), times)
        for name, wait in (("old", 0), ("new", 1))[: 1 if alone else 2]:
            own = VisibilityQueue(lab.redis(), "orders")
            lab.worker(name, _serve, name, own, seconds, fails, wait, forever=True)
        lab.deadlines(queue.deadlines)

    return one_order


@lru_cache
def _executed(name: str) -> Trace:
    scenario, faults = _WORLDS[name]
    return run(scenario, seed=1, faults=faults)


def _lines(name: str) -> list[dict[str, Any]]:
    return [dict(line) for line in logs(_executed(name)).where(job_id=JOB)]


_WORLDS: dict[str, tuple[Scenario, dict[float, str]]] = {
    "slow": (shop(seconds=(45, 1)), {}),
    "fails": (shop(fails=True), {}),
    "fails late": (shop(seconds=(20, 1), fails=True, alone=True), {}),
    "sent twice": (shop(times=2), {}),
    "killed": (shop(seconds=(20, 20)), {1: "crash:old"}),
}


def _case(name: str, wanted: str, told: str) -> Case:
    return Case(lambda query: query(_lines(name)), wanted, told, partial(_executed, name))


def starter(lines: Lines) -> str:
    events = [line["event"] for line in lines]
    print(events)
    return "redelivery"


def solution(lines: Lines) -> str:
    events = [line["event"] for line in lines]
    if events.count("job.enqueued") > 1:
        return "sent twice"
    if "job.failed" in events:
        return "retry"
    return "redelivery"


# ---- mistakes


def by_the_attempt(lines: Lines) -> str:
    return "redelivery" if any(line.get("attempt") == 2 for line in lines) else "sent twice"


def by_the_gap(lines: Lines) -> str:
    begun = [line["time"] for line in lines if line["event"] == "job.started"]
    gap = int(begun[1][14:16]) * 60 + float(begun[1][17:23]) - int(begun[0][14:16]) * 60 - float(begun[0][17:23])
    return "redelivery" if abs(gap - TIMEOUT) < 3 else "retry"


def by_the_worker(lines: Lines) -> str:
    workers = {line["worker_id"] for line in lines if line["event"] == "job.started"}
    return "redelivery" if len(workers) > 1 else "retry"


def never_sent_twice(lines: Lines) -> str:
    return "retry" if any(line["event"] == "job.failed" for line in lines) else "redelivery"


def needs_an_ending(lines: Lines) -> str:
    events = [line["event"] for line in lines]
    if events.count("job.enqueued") > 1:
        return "sent twice"
    return "redelivery" if events.count("job.acked") == 2 else "retry"


why_again = WriteQuery(
    "why_again",
    "Write my_verdict(lines): lines are those of the log of one job that was begun twice, in order. Return "
    '"sent twice", "retry" or "redelivery".',
    names=["my_verdict"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "Each of the three leaves a line that the others do not, or leaves none at all.",
        "A producer that sends twice has two lines job.enqueued. What does a worker log before it tries again of its "
        "own accord?",
        "Two job.enqueued: sent twice. Otherwise, a job.failed: retry. Otherwise nobody said anything: redelivery.",
    ),
    cases=[
        _case("slow", "redelivery", "This job took 45 s, its message was hidden for 30, and nothing failed."),
        _case("fails", "retry", "Here the first attempt raised an error, and the worker gave the job back for later."),
        _case("sent twice", "sent twice", "The API sent this order again after half a minute. Count what it sent."),
        _case("fails late", "retry", "One worker, whose first attempt failed after 20 s. Whose idea was the second?"),
        _case("killed", "redelivery", "The first worker was killed in the job. The dead log nothing."),
    ],
    praise="The lines tell: who sent, who failed, and who said nothing.",
    mistakes=[
        Mistake("by the attempt", (by_the_attempt,), "raised an error"),
        Mistake("by the gap", (by_the_gap,), "raised an error"),
        Mistake("by the worker", (by_the_worker,), "You say"),
        Mistake("forgets the producer", (never_sent_twice,), "Count what it sent"),
        Mistake("a redelivery must end twice", (needs_an_ending,), "The dead log nothing"),
    ],
)
