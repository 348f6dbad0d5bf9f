"""Exercise: complete a job so that its status and its event cannot come apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.trace import Trace

TWICE = "the event is published at most once"
LOST = "a completed job's event was published"
UNDONE = "the job is completed"

CompleteJob = Callable[[redis.Redis, str], object]


def world(complete_job: CompleteJob) -> Scenario:
    """Two workers complete job 1 with the learner's function; a spared one retries later and relays the outbox."""

    def complete_once(lab: Lab) -> None:
        jobs = lab.redis()
        jobs.set("job_status:1", "in-progress")
        for name in "AB":
            lab.worker(name, complete_job, lab.redis(), "1")
        lab.worker("R", _retry_and_relay, complete_job, lab.redis(), lab.events, spared=True)
        lab.always(TWICE, lambda: lab.events.count("1") <= 1)
        lab.at_end(UNDONE, lambda: jobs.get("job_status:1") == b"completed")
        lab.at_end(LOST, lambda: jobs.get("job_status:1") != b"completed" or lab.events.count("1") > 0)

    return complete_once


def _retry_and_relay(complete_job: CompleteJob, r: redis.Redis, events: Service) -> None:
    """What operations do: try again when every lock must have expired, then publish what is in the outbox."""
    for _ in range(2):
        time.sleep(60)
        complete_job(r, "1")
    while (job := r.lindex("outbox", 0)) is not None:
        events.publish(_text(job))
        r.lrem("outbox", 1, _text(job))


def why_twice(trace: Trace) -> str:
    """What to look at when the event goes out twice."""
    of_workers = [event for event in trace.events if event.worker != "R"]
    words = [event.text.split() for event in of_workers]
    if any("NX" in sent for sent in words):
        return "The event goes out twice, in spite of your lock. What does its holder know of the lease while paused?"
    if not any(sent[0] in ("GET", "EVALSHA") or "GET" in sent for sent in words):
        return "The event goes out twice. Who looks whether the job is completed already?"
    if any(event.text.startswith("GET job_status") and event.reply == "completed" for event in of_workers):
        return (
            "The event goes out twice. One worker read completed, and wrote all the same. A reply is bytes: "
            "b'completed' is not 'completed'."
        )
    return "The event goes out twice. Which worker still trusted a reply that was no longer true?"


def why_lost(trace: Trace) -> str:
    """What to look at when a completed job's event was not published."""
    if any(event.store == "events" for event in trace.events):
        return "The job says completed, and what was published is not the job: what do you put on the list?"
    if not any("outbox" in event.writes for event in trace.events):
        if any(event.kind == "crash" for event in trace.events):
            return "The job says completed, but nobody ever hears of it. What happens between your two writes?"
        return "The job says completed, and the list outbox is empty: who puts the job on it?"
    return "The job says completed, but nobody ever hears of it. What happens between your two writes?"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def starter(r: redis.Redis, job: str) -> None:
    if r.get(f"job_status:{job}") != b"completed":
        r.set(f"job_status:{job}", "completed")
        r.rpush("outbox", job)


def solution(r: redis.Redis, job: str) -> None:
    status = f"job_status:{job}"

    def complete(pipe: Any) -> None:
        if pipe.get(status) != b"completed":
            pipe.multi()
            pipe.set(status, "completed")
            pipe.rpush("outbox", job)

    r.transaction(complete, status)


# ---- mistakes


def locked(r: redis.Redis, job: str) -> None:
    if r.set("lock", "mine", nx=True, ex=30):
        try:
            starter(r, job)
        finally:
            r.delete("lock")


def one_step_without_a_guard(r: redis.Redis, job: str) -> None:
    with r.pipeline() as pipe:
        pipe.set(f"job_status:{job}", "completed")
        pipe.rpush("outbox", job)
        pipe.execute()


def guard_outside(r: redis.Redis, job: str) -> None:
    if r.get(f"job_status:{job}") != b"completed":
        one_step_without_a_guard(r, job)


def compared_status_first(r: redis.Redis, job: str) -> None:
    if r.set(f"job_status:{job}", "completed", get=True) != b"completed":
        r.rpush("outbox", job)


def event_only(r: redis.Redis, job: str) -> None:
    if r.llen("outbox") == 0:
        r.rpush("outbox", job)


def compares_bytes_with_text(r: redis.Redis, job: str) -> None:
    if r.get(f"job_status:{job}") != "completed":
        one_step_without_a_guard(r, job)


def no_event(r: redis.Redis, job: str) -> None:
    r.set(f"job_status:{job}", "completed")


def another_event(r: redis.Redis, job: str) -> None:
    solution(r, job)
    if r.lrem("outbox", 1, job):
        r.rpush("outbox", f"job_status:{job}")


complete_once = WriteProgram(
    "complete_once",
    "Write my_complete_job(r, job): set job_status:JOB to completed and put the job on the list outbox, so that the "
    "two cannot come apart.",
    names=["my_complete_job"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "A crash can fall between any two commands that you send. How many of your commands change something?",
        "`r.transaction(function, key)` watches the key and calls your function again if anybody touched it meanwhile.",
        "In the function: return if `pipe.get(status)` is b'completed'; else `pipe.multi()`, set the status, rpush.",
    ),
    worlds=[
        World(
            world,
            {
                UNDONE: "In the end the job is not completed. Follow the last worker that could have done it.",
                TWICE: why_twice,
                LOST: why_lost,
            },
            {"crashes": 1, "pauses": 1},
        )
    ],
    praise="Status and event go together in every schedule within these bounds.",
    mistakes=[
        Mistake("check-then-act", (starter,), "still trusted a reply"),
        Mistake("the guard outside of the step", (guard_outside,), "still trusted a reply"),
        Mistake("a lock around two writes", (locked,), "in spite of your lock"),
        Mistake("one step, no guard", (one_step_without_a_guard,), "Who looks whether"),
        Mistake("status before event", (compared_status_first,), "nobody ever hears of it"),
        Mistake("bytes are no text", (compares_bytes_with_text,), "b'completed' is not 'completed'"),
        Mistake("no event", (no_event,), "who puts the job on it?"),
        Mistake("another event", (another_event,), "what do you put on the list?"),
        Mistake("no status", (event_only,), "In the end the job is not completed"),
    ],
)
