"""Exercise: a handler whose log answers what everybody asks after an incident; asked by four questions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.execution import run
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_property import Slip
from labkit.exercises.write_query import Case, WriteQuery
from labkit.lab import Lab, Scenario, Service
from labkit.queues import VisibilityQueue
from labkit.workers import Job

TIMEOUT = 30
# One order that is slow, one that the API publishes twice, one whose first worker is killed before its mail.
PUBLISHED = [("q-1", "evt-1", "ord-1"), ("q-2", "evt-2", "ord-2"), ("q-3", "evt-3", "ord-2"), ("q-4", "evt-4", "ord-3")]
SECONDS = {"ord-1": (45, 5), "ord-2": (5, 5), "ord-3": (25, 5)}  # a mail's, at the first attempt and at others
WORKERS = [("old-1", "release-41", 0, 1), ("old-2", "release-41", 1, 3), ("new-1", "release-42", 32, 2)]
KILLED = {15.0: "crash:old-2"}

Log = Callable[..., None]
Handler = Callable[[Job, Any, Log], object]
Line = dict[str, Any]


@dataclass
class Run:
    """What a handler logged in one run: before its mail was out, and after."""

    before: list[Line] = field(default_factory=list)
    after: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class SlowMail:
    """A mail service that takes its time, and then sends."""

    mail: Service
    seconds: float
    its_order: str

    def send(self, order: str) -> None:
        """Send the mail of an order."""
        if order != self.its_order:
            raise ValueError(f"mail.send is given {order!r}, in a job of {self.its_order!r}")
        time.sleep(self.seconds)
        self.mail.send(order)
        _mark("sent")


def _mark(what: str) -> None:
    print(json.dumps({"mark": what}))


def _log(event: str, **fields: object) -> None:
    print(json.dumps({"line": {"event": event, **fields}}, default=str))


def _serve(
    name: str, release: str, queue: VisibilityQueue, mail: Service, handler: Handler, wait: float, most: int
) -> None:
    if wait:
        time.sleep(wait)
    for _ in range(most):
        for message in queue.receive(wait=20):
            job = Job(message, name, release, emit=lambda event: None)
            _mark("begin")
            order = message.body["order_id"]
            handler(job, SlowMail(mail, SECONDS[order][message.receive_count != 1], order), _log)
            queue.delete(message.receipt_handle)


def shop(handler: Handler) -> Scenario:
    """Four messages and three workers."""

    def four_messages(lab: Lab) -> None:
        queue = VisibilityQueue.create(lab.redis(), "orders", visibility_timeout=TIMEOUT, old_receipts="delete")
        for job, event, order in PUBLISHED:
            queue.send({"job_id": job, "event_id": event, "order_id": order})
        lab.deadlines(queue.deadlines)
        for name, release, wait, most in WORKERS:
            lab.worker(
                name, _serve, name, release, VisibilityQueue(lab.redis(), "orders"), lab.mail, handler, wait, most
            )

    return four_messages


def runs(handler: Handler) -> list[Run]:
    """What a handler logs in the shop, run by run, in the order in which they began."""
    found: list[Run] = []
    current: dict[str | None, Run] = {}
    for worker, said in _said(handler):
        if said.get("mark") == "begin":
            current[worker] = Run()
            found.append(current[worker])
        elif said.get("mark") == "sent":
            current[worker].after.append({})
        else:
            run_ = current[worker]
            (run_.after if run_.after else run_.before).append(said["line"])
    return found


def _said(handler: Handler) -> Iterator[tuple[str | None, Line]]:
    for event in run(shop(handler), faults=KILLED).events:
        for line in event.printed.splitlines():
            if line.startswith(('{"mark"', '{"line"')):  # and not what a learner prints
                yield event.choice.process, json.loads(line)
        if event.ending is not None and event.ending.error is not None:
            raise Slip(f"raised {event.ending.error}")


def begun(handler: Handler) -> int:
    """How many runs say that they have begun, before they do anything."""
    return sum(bool(one.before) for one in runs(handler))


def _firsts(handler: Handler) -> list[Line]:
    return [one.before[0] for one in runs(handler)]


def _by(lines: list[Line], key: str, value: str) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for line in lines:
        values = found.setdefault(line.get(key), [])
        if line.get(value) not in values:
            values.append(line.get(value))
    return dict(sorted(found.items(), key=str))


def publishes(handler: Handler) -> dict[Any, list[Any]]:
    """Which publishes each order had."""
    return _by(_firsts(handler), "order_id", "event_id")


def workers(handler: Handler) -> dict[Any, list[Any]]:
    """Which workers began each job."""
    return _by(_firsts(handler), "job_id", "worker_id")


def attempts(handler: Handler) -> dict[Any, list[Any]]:
    """Which attempts of each job were begun."""
    return _by(_firsts(handler), "job_id", "attempt")


def releases(handler: Handler) -> dict[Any, list[Any]]:
    """Which releases have sent the mail of each job, as far as the log says so after the mail."""
    after = [one.after[1] for one in runs(handler) if len(one.after) > 1]
    return _by(after, "job_id", "deployment_id")


def starter(job: Job, mail: Any, log: Log) -> None:
    log("job.started", order_id=job.body["order_id"])
    mail.send(job.body["order_id"])


def solution(job: Job, mail: Any, log: Log) -> None:
    ids = {
        "job_id": job.body["job_id"],
        "event_id": job.body["event_id"],
        "order_id": job.body["order_id"],
        "worker_id": job.worker_id,
        "deployment_id": job.deployment_id,
        "attempt": job.attempt,
    }
    log("job.started", **ids)
    mail.send(job.body["order_id"])
    log("effect.applied", effect="mail", **ids)


# ---- mistakes


def as_labkit_does(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.correlation)
    mail.send(job.body["order_id"])
    log("effect.applied", effect="mail", **job.correlation)


def only_at_the_end(job: Job, mail: Any, log: Log) -> None:
    mail.send(job.body["order_id"])
    log("effect.applied", **job.correlation)


def no_event_id(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **{**job.correlation, "event_id": None})
    mail.send(job.body["order_id"])
    log("effect.applied", **job.correlation)


def no_worker(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.body, attempt=job.attempt)
    mail.send(job.body["order_id"])
    log("effect.applied", **job.body, attempt=job.attempt)


def no_attempt(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.body, worker_id=job.worker_id)
    mail.send(job.body["order_id"])
    log("effect.applied", **job.body, worker_id=job.worker_id)


def both_before(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.correlation)
    log("effect.applied", **job.correlation)
    mail.send(job.body["order_id"])


def no_release(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.correlation)
    mail.send(job.body["order_id"])
    log("effect.applied", job_id=job.body["job_id"])


def one_order_for_all(job: Job, mail: Any, log: Log) -> None:
    log("job.started", **job.correlation)
    mail.send("ord-1")
    log("effect.applied", **job.correlation)


log_the_ids = WriteQuery(
    "log_the_ids",
    "Write my_handler(job, mail, log): it sends the mail of the order, and logs so much, by log(event, ...), that the "
    "log alone answers who did what.",
    names=["my_handler"],
    starter=(starter,),
    solution=(solution,),
    says="Your log says",
    hints=(
        "Two moments are worth a line: before the work begins, and after its effect. Which six ids belong into both?",
        "In job.body: job_id, event_id, order_id. On the job itself: worker_id, deployment_id, attempt.",
        "ids = dict with all six; log('job.started', **ids); mail.send(...); log('effect.applied', **ids).",
    ),
    cases=[
        Case(begun, 6, "How many runs of the handler began? One was killed before its mail: what did it leave behind?"),
        Case(
            publishes,
            {"ord-1": ["evt-1"], "ord-2": ["evt-2", "evt-3"], "ord-3": ["evt-4"]},
            "Was an order published once or twice? Ask order_id and event_id of the first line of each run.",
        ),
        Case(
            workers,
            {"q-1": ["old-1", "new-1"], "q-2": ["old-2"], "q-3": ["old-2"], "q-4": ["old-2", "new-1"]},
            "Which workers began the same job? Ask job_id and worker_id of the first line of each run.",
        ),
        Case(
            attempts,
            {"q-1": [1, 2], "q-2": [1], "q-3": [1], "q-4": [1, 2]},
            "Was it delivered again? Ask job_id and attempt of the first line of each run.",
        ),
        Case(
            releases,
            {
                "q-1": ["release-41", "release-42"],
                "q-2": ["release-41"],
                "q-3": ["release-41"],
                "q-4": ["release-42"],
            },
            "Which release has sent the mail of each job? Ask job_id and deployment_id of the line that comes when "
            "mail.send has returned.",
        ),
    ],
    praise="This log can be asked.",
    mistakes=[
        Mistake("a line at the end only", (only_at_the_end,), "what did it leave behind"),
        Mistake("no id of the publish", (no_event_id,), "published once or twice"),
        Mistake("no id of the worker", (no_worker,), "Which workers began"),
        Mistake("no attempt", (no_attempt,), "Was it delivered again"),
        Mistake("says so before it is so", (both_before,), "has returned"),
        Mistake("the mail of another order", (one_order_for_all,), "in a job of 'ord-2'"),
        Mistake("the second line has no release", (no_release,), "Which release"),
    ],
)
