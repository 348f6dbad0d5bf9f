"""Exercise: an alert on a job that two workers do at once, and not on one that was merely begun again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from labkit.exercises.begun_twice import JOB, executed, log_of
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_query import Case, WriteQuery, asked

Lines = Sequence[dict[str, Any]]


def _case(name: str, wanted: set[str], told: str) -> Case:
    return Case(lambda query: asked(query, log_of(name)), wanted, told, partial(executed, name))


def starter(lines: Lines) -> set[str]:
    pairs = {(line["job_id"], line["worker_id"]) for line in lines if line["event"] == "job.started"}
    workers = Counter(job for job, worker in pairs)
    return {job for job in workers if workers[job] > 1}


def solution(lines: Lines) -> set[str]:
    at_work, found = {line["worker_id"]: "" for line in lines}, set()
    for line in lines:
        event, worker = line["event"], line["worker_id"]
        if event == "job.started":
            if line["job_id"] in at_work.values():
                found.add(line["job_id"])
            at_work[worker] = line["job_id"]
        elif event in ("job.acked", "job.failed", "worker.killed"):
            at_work[worker] = ""
    return found


# ---- mistakes


def _open_intervals(lines: Lines, ends: Sequence[str]) -> set[str]:
    at_work: dict[str, str] = {}
    found = set()
    for line in lines:
        if line["event"] == "job.started":
            if line["job_id"] in at_work.values():
                found.add(line["job_id"])
            at_work[line["worker_id"]] = line["job_id"]
        elif line["event"] in ends:
            at_work.pop(line["worker_id"], None)
    return found


def forgets_failures(lines: Lines) -> set[str]:
    return _open_intervals(lines, ("job.acked", "worker.killed"))


def forgets_the_dead(lines: Lines) -> set[str]:
    return _open_intervals(lines, ("job.acked", "job.failed"))


def begun_twice(lines: Lines) -> set[str]:
    begun = Counter(line["job_id"] for line in lines if line["event"] == "job.started")
    return {job for job, times in begun.items() if times > 1}


def by_the_attempt(lines: Lines) -> set[str]:
    return {line["job_id"] for line in lines if line["event"] == "job.started" and line["attempt"] > 1}


def anybody_else(lines: Lines) -> set[str]:
    at_work, found = set[str](), set[str]()
    for line in lines:
        if line["event"] == "job.started":
            if at_work - {line["worker_id"]}:
                found.add(line["job_id"])
            at_work.add(line["worker_id"])
        elif line["event"] in ("job.acked", "job.failed", "worker.killed"):
            at_work.discard(line["worker_id"])
    return found


def nothing(lines: Lines) -> set[str]:
    return set()


two_at_once = WriteQuery(
    "two_at_once",
    "Write my_alert(lines): lines are a whole log, in order. Return the set of the jobs that one worker began while "
    "another was still working on them.",
    names=["my_alert"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "A job in the log of two workers may be two attempts, one after the other. What is it that must not be: two "
        "workers, or two workers at the same time?",
        "Keep for each worker the job that it is working on. job.started puts it there. Which three events end it?",
        "at_work maps a worker to its job. On job.started: is the job among at_work.values()? Then it is found. "
        "job.acked, job.failed and worker.killed take the worker out.",
    ),
    cases=[
        _case("slow", {JOB}, "This job took 45 s, was hidden for 30, and a second worker began it meanwhile."),
        _case("fails", set(), "Here an attempt failed, and the job was tried again half a minute later."),
        _case(
            "fails, goes on elsewhere",
            set(),
            "Here an attempt failed, and another worker did the second one. That is what retries are for: an alert "
            "here will ring every day. When does an attempt that failed end?",
        ),
        _case("killed", set(), "Here a worker was killed, and another took over. The dead do not work."),
        _case("two orders", set(), "Here two workers do two different jobs at the same time, as they should."),
        _case("sent twice", set(), "Here an order was sent again when the first was long done."),
    ],
    praise="It rings when two are at work on one job, and never because a job was tried again.",
    mistakes=[
        Mistake("more than one worker", (starter,), "another worker did the second one"),
        Mistake("begun twice", (begun_twice,), "tried again half a minute later"),
        Mistake("by the attempt", (by_the_attempt,), "tried again half a minute later"),
        Mistake("a failure does not end the work", (forgets_failures,), "failed"),
        Mistake("the dead work on", (forgets_the_dead,), "The dead do not work"),
        Mistake("anybody else at work", (anybody_else,), "two different jobs"),
        Mistake("never rings", (nothing,), "a second worker began it meanwhile"),
    ],
)
