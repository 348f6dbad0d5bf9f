"""Workers that are told to stop, or are killed: what they had is done twice, comes late, or is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.lab import Service


def told_to_stop() -> threading.Event:
    """What SIGTERM sets."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    return told


def give_back(r: Any, job: str, own: str, queue: str) -> None:
    """Move a job from a worker's own list back to the queue."""
    with r.pipeline() as pipe:
        pipe.lrem(own, 1, job).rpush(queue, job).execute()


# ---- P24: a parent that acknowledges what its child did not do


def parent(r: Any, requeues: bool) -> None:
    """Hand tasks to a child, and acknowledge them when it is done.

    The lists `pipe` and `results` stand for pipes. The lab's children need no time: one that does not answer is dead.
    """
    while True:
        task = r.blmove("celery", "unacked", 0)
        r.rpush("pipe", task)
        done = r.blpop(["results"], timeout=10)
        if requeues and not done:
            give_back(r, task, "unacked", "celery")
        else:
            r.lrem("unacked", 1, task)


def child(r: Any, orders: Service, keyed: bool) -> None:
    """Run what comes through the pipe."""
    while True:
        _, task = r.blpop(["pipe"])
        orders.call(task, idempotency_key=task if keyed else None)
        r.rpush("results", task)


def prefork(lab: Lab, requeues: bool, keyed: bool) -> None:
    """One of the two children may be killed, by the kernel for its memory.

    Parameters
    ----------
    requeues: whether the parent gives back the task of a child that died (`task_reject_on_worker_lost`).
    keyed: whether effects carry an idempotency key.
    """
    orders = lab.service("orders", deduplicates=True)
    lab.redis().rpush("celery", "task")
    lab.worker("parent", parent, lab.redis(decode_responses=True), requeues, spared=True, forever=True)
    for name in ("child-1", "child-2"):
        lab.worker(name, child, lab.redis(decode_responses=True), orders, keyed, forever=True)
    lab.always("the task takes effect once", lambda: orders.count("task") <= 1)
    lab.at_end("the task takes effect in the end", lambda: orders.count("task") >= 1)


P24 = Case(
    id="P24",
    title="Celery: acks_late acknowledges the task of a child that was killed",
    sources=("https://docs.celeryq.dev/en/stable/userguide/configuration.html#task-reject-on-worker-lost",),
    mechanism="The parent acknowledges whatever happened to its child, be it that the kernel killed it half-way.",
    fix="Give back the task of a child that died (`task_reject_on_worker_lost`), and give its effects a key.",
    broken=partial(prefork, requeues=False, keyed=False),
    fixed=partial(prefork, requeues=True, keyed=True),
    budgets={"crashes": 1},
)


# ---- P26: a warm shutdown that closes the way back too early


def warm_shutdown(lab: Lab, r: Any, me: str, fixed: bool) -> None:
    """Run a task and acknowledge it; before the end, restore what is not acknowledged."""
    told = told_to_stop()
    task = r.blmove("celery", f"unacked:{me}", 0)
    lab.mail.send(task)
    if fixed or not told.is_set():  # SIGTERM has closed the channel
        r.lrem(f"unacked:{me}", 1, task)
    r.lmove(f"unacked:{me}", "celery")


def warm(lab: Lab, fixed: bool) -> None:
    """A may be told to stop; B is its successor."""
    lab.redis().rpush("celery", "task")
    for name in "AB":
        r = lab.redis(decode_responses=True)
        lab.worker(name, warm_shutdown, lab, r, name, fixed, forever=True, signals=int(name == "A"))
    lab.at_end("the task is done once", lambda: lab.mail.count("task") == 1)


P26 = Case(
    "P26",
    "Celery: a task that ends during a warm shutdown is done again",
    (
        "https://github.com/celery/celery/issues/3802",
        "https://github.com/celery/celery/issues/3796",
        "https://github.com/celery/celery/issues/3653",
    ),
    "SIGTERM closes the channel, so the task that is let finish cannot be acknowledged, and is restored as unfinished.",
    "Close the channel only when the tasks that are let finish have been acknowledged.",
    *in_both(warm),
)


# ---- P27: two that give the same job back


class Shutdown(Exception):
    """What a job sees when its time is over."""


def anybody(undecided: threading.Lock) -> bool:
    """Who puts a job back, as it was: whoever sees a reason."""
    return True


def the_first(undecided: threading.Lock) -> bool:
    """Who puts a job back: whoever decides it first."""
    return undecided.acquire(blocking=False)


def process_job(lab: Lab, r: Any, may: Callable[[threading.Lock], bool]) -> None:
    """A thread runs a job of a minute; after SIGTERM it has 25 s, and then the job is put back."""
    told, over, undecided = told_to_stop(), threading.Event(), threading.Lock()
    _, job = r.brpop(["queue"])

    def perform() -> None:
        try:
            if over.wait(60):
                raise Shutdown
            lab.mail.send(job)
        except Exception:  # the job has failed
            if may(undecided):
                r.zadd("retry", {job: 0})
        told.set()

    processor = threading.Thread(target=perform, name="processor")
    processor.start()
    told.wait()
    processor.join(25)
    if processor.is_alive():
        if may(undecided):
            r.rpush("queue", job)
        over.set()


def hard_shutdown(lab: Lab, may: Callable[[threading.Lock], bool]) -> None:
    """One process, which may be told to stop."""
    seen = lab.redis()
    seen.rpush("queue", "job")
    lab.worker("A", process_job, lab, lab.redis(decode_responses=True), may, signals=1)

    def copies() -> int:
        return int(seen.llen("queue")) + int(seen.zcard("retry"))

    lab.always("a job is put back once", lambda: copies() <= 1)
    lab.at_end("a job is done or put back", lambda: lab.mail.count("job") + copies() >= 1)


P27 = Case(
    id="P27",
    title="Sidekiq: at a shutdown a job goes back to the queue, and to the retries as well",
    sources=("https://github.com/sidekiq/sidekiq/issues/4112", "https://github.com/sidekiq/sidekiq/issues/897"),
    mechanism="The manager puts the unfinished job back; what then ends it looks like a failure, and is to be retried.",
    fix="One owner of the decision: whoever is first to take it puts the job back, and the other does nothing.",
    broken=partial(hard_shutdown, may=anybody),
    fixed=partial(hard_shutdown, may=the_first),
)


# ---- P28: a grace period that is shorter than a job

PARTS = ("first", "second")


def pod(lab: Lab, r: Any, grace: float, early: bool) -> None:
    """A pod with one job; what still runs when the grace period is over ends with it, as by SIGKILL."""
    told = told_to_stop()
    job = threading.Thread(target=long_job, args=(lab, r, told, early), name="job", daemon=True)
    job.start()
    told.wait()
    job.join(grace)


def long_job(lab: Lab, r: Any, told: threading.Event, early: bool) -> None:
    """Take a job of two parts, 20 s each, and acknowledge it when it is done, or before it has begun."""
    job = r.blmove("queue", "processing", 0)
    if told.is_set():  # too late to begin
        give_back(r, job, "processing", "queue")
        return
    if early:
        r.lrem("processing", 1, job)
    for part in PARTS:
        time.sleep(20)
        lab.mail.send(part)
    r.lrem("processing", 1, job)


def next_pod(lab: Lab, r: Any) -> None:
    """When the visibility timeout is over, do what is not acknowledged, or was given back."""
    time.sleep(120)
    if r.lpop("processing") or r.lpop("queue"):
        for part in PARTS:
            lab.mail.send(part)


def rollout(lab: Lab, grace: float, early: bool = False) -> None:
    """The old pod may be told to stop at any moment.

    Parameters
    ----------
    grace: seconds from SIGTERM to SIGKILL.
    early: whether jobs are acknowledged when they are received.
    """
    lab.redis().rpush("queue", "job")
    lab.worker("old", pod, lab, lab.redis(decode_responses=True), grace, early, signals=1, forever=True)
    lab.worker("new", next_pod, lab, lab.redis(decode_responses=True), spared=True)
    lab.always("each part takes effect once", lambda: all(lab.mail.count(part) <= 1 for part in PARTS))
    lab.at_end("each part takes effect in the end", lambda: all(lab.mail.count(part) >= 1 for part in PARTS))


P28 = Case(
    id="P28",
    title="Kubernetes: 30 s of grace for tasks of minutes",
    sources=(
        "https://github.com/Arvo-AI/aurora/pull/487",
        "https://github.com/apache/airflow/issues/18066",
        "https://github.com/learningequality/studio/pull/5520",
    ),
    mechanism="SIGKILL comes half a minute after SIGTERM, after a part of the task and before its acknowledgement.",
    fix="A grace period longer than the longest task; to acknowledge early instead loses the task.",
    broken=lambda lab: rollout(lab, grace=30),
    fixed=lambda lab: rollout(lab, grace=60),
)


# ---- P29: a long poll that is still under way


def cold_shutdown(lab: Lab, r: Any, fixed: bool) -> None:
    """A thread receives messages; at SIGTERM, give back those that were received."""
    told, stop, received = told_to_stop(), threading.Event(), list[str]()

    def poll() -> None:
        while not stop.is_set():
            if message := r.blmove("queue", "hidden", 20):
                received.append(message)

    poller = threading.Thread(target=poll, name="poller", daemon=True)
    poller.start()
    with lab.section("alive"):
        told.wait()
        if fixed:
            stop.set()
            poller.join()
        for message in list(received):
            give_back(r, message, "hidden", "queue")
        lab.events.publish("worker-offline")


def long_poll(lab: Lab, fixed: bool) -> None:
    """One worker, which may be told to stop; what is hidden stays so for half an hour."""
    seen = lab.redis()
    seen.rpush("queue", "message")
    lab.worker("A", cold_shutdown, lab, lab.redis(decode_responses=True), fixed, signals=1, forever=True)
    lab.always("what a worker leaves is delivered at once", lambda: lab.inside("alive") or seen.llen("queue") == 1)


P29 = Case(
    "P29",
    "kombu on SQS: a message that was given back is taken by the same worker's last poll",
    ("https://github.com/celery/kombu/pull/2049",),
    "The long poll outlives the decision to stop: it takes a message, such as one just given back, for nobody.",
    "Stop polling, and wait for the poll that is under way, before anything is given back.",
    *in_both(long_poll),
)
