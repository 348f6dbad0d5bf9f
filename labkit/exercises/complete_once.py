"""Exercise: complete a job so that its status and its event cannot come apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

from labkit.exercises.answer import Answer, examine
from labkit.lab import Lab, Service

TWICE = "the event is published at most once"
LOST = "a completed job's event was published"
UNDONE = "the job is completed"

_ADVICE = {
    TWICE: "The event goes out twice. Which worker still trusted a reply that was no longer true?",
    LOST: "The job says completed, but nobody ever hears of it. What happens between your two writes?",
    UNDONE: "In the end the job is not completed. Follow the last worker that could have done it.",
}

_HINTS = (
    "A crash can fall between any two commands that you send. How many of your commands change something?",
    "`r.transaction(function, key)` watches the key, and calls your function again if anybody touched it meanwhile.",
    "In the function: return if `pipe.get(status)` is b'completed'; else `pipe.multi()`, set the status, rpush.",
)


def scenario_for(complete_job: Callable[[redis.Redis, str], object]) -> Callable[[Lab], None]:
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


def check(complete_job: Callable[[redis.Redis, str], object]) -> Answer:
    """Search every schedule of an attempt with at most one crash and one pause.

    Parameters
    ----------
    complete_job: called with a redis-py client and a job id. It sets `job_status:ID` to `completed` and puts
        the id on the list `outbox`, from where a relay publishes it.
    """
    praise = "Status and event go together in every schedule within these bounds."
    return examine(complete_job, scenario_for(complete_job), _ADVICE.__getitem__, crashes=1, pauses=1, praise=praise)


def hint(level: int = 1) -> None:
    """Print a hint.

    Parameters
    ----------
    level: 1 (a nudge), 2 (a hint) or 3 (nearly the answer).
    """
    print(_HINTS[min(max(level, 1), len(_HINTS)) - 1])


def solution(r: redis.Redis, job: str) -> None:
    """One way to do it; read it with `complete_once.solution??`."""
    status = f"job_status:{job}"

    def complete(pipe: Any) -> None:
        if pipe.get(status) != b"completed":
            pipe.multi()
            pipe.set(status, "completed")
            pipe.rpush("outbox", job)

    r.transaction(complete, status)


def _retry_and_relay(complete_job: Callable[[redis.Redis, str], object], r: redis.Redis, events: Service) -> None:
    """What operations do: try again when every lock must have expired, then publish what is in the outbox."""
    for _ in range(2):
        time.sleep(60)
        complete_job(r, "1")
    while (job := r.lindex("outbox", 0)) is not None:
        events.publish(_text(job))
        r.lrem("outbox", 1, _text(job))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
