"""Exercise: say what must hold of a job's status and its event, so that three planted bugs are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_property import Program, WriteProperty
from labkit.lab import Lab, Service

STATUS = "job_status:1"


def _claimed(r: redis.Redis, events: Service) -> None:
    if r.set("job_claim:1", "taken", nx=True):
        r.set(STATUS, "completed")
        events.publish("1")


def _guarded(r: redis.Redis, events: Service) -> None:
    if r.get(STATUS) != b"completed":
        r.set(STATUS, "completed")
        events.publish("1")


def _when_both_are_done(r: redis.Redis, events: Service) -> None:
    if r.get(STATUS) != b"completed":
        r.set(STATUS, "completed")
        if r.incr("parts_done:1") == 2:
            events.publish("1")


def _give_back(r: redis.Redis) -> None:
    if r.get(STATUS) == b"in-progress":
        r.set(STATUS, "pending")


def _two(complete: Callable[[redis.Redis, Service], None], watched: bool = False) -> Callable[[Lab], tuple[Any, ...]]:
    """Two workers with job 1, and a watcher that gives it back, if told to."""

    def build(lab: Lab) -> tuple[Any, ...]:
        jobs = lab.redis()
        jobs.set(STATUS, "in-progress")
        for name in "AB":
            lab.worker(name, complete, lab.redis(), lab.events)
        if watched:
            lab.worker("watcher", _give_back, lab.redis())
        return (jobs,)

    return build


def starter(lab: Lab, jobs: redis.Redis) -> None:
    lab.always("there is a status", lambda: jobs.get("job_status:1") is not None)


def solution(lab: Lab, jobs: redis.Redis) -> None:
    lab.always("the event goes out at most once", lambda: lab.events.count("1") <= 1)
    lab.at_end("the event is out", lambda: lab.events.count("1") >= 1)
    lab.at_end("the job is completed", lambda: jobs.get("job_status:1") == b"completed")


# ---- mistakes


def nothing(lab: Lab, jobs: redis.Redis) -> None:
    pass


def status_only(lab: Lab, jobs: redis.Redis) -> None:
    lab.at_end("completed", lambda: jobs.get("job_status:1") == b"completed")


def event_only(lab: Lab, jobs: redis.Redis) -> None:
    lab.at_end("exactly one event", lambda: lab.events.count("1") == 1)


def at_most_one_and_status(lab: Lab, jobs: redis.Redis) -> None:
    status_only(lab, jobs)
    lab.always("at most one event", lambda: lab.events.count("1") <= 1)


def too_strict(lab: Lab, jobs: redis.Redis) -> None:
    solution(lab, jobs)
    lab.always("together", lambda: (jobs.get("job_status:1") == b"completed") == (lab.events.count("1") == 1))


def compares_bytes_with_text(lab: Lab, jobs: redis.Redis) -> None:
    lab.at_end("completed", lambda: jobs.get("job_status:1") == "completed")


say_what_must_hold = WriteProperty(
    "say_what_must_hold",
    "State what must hold of job 1: of its status in jobs, and of its event in lab.events.",
    names=["my_properties"],
    starter=(starter,),
    solution=(solution,),
    sound=Program(
        _two(_claimed),
        "You reject a program that is sound. Between two steps things are half done; some things hold only at_end.",
    ),
    mutants=[
        Program(_two(_guarded), "You accept a program in which the event goes out twice. Who counts the events?"),
        Program(
            _two(_claimed, watched=True), "You accept a program that leaves a done job pending. Who reads its status?"
        ),
        Program(
            _two(_when_both_are_done),
            "You accept a program in which the event never goes out. Is at most one enough?",
        ),
    ],
    praise="You have said it.",
    hints=(
        "It can go wrong in three ways: the event twice, the event never, the wrong status. What must hold always?",
        "`lab.events.count('1')` is how often the event went out. Two is wrong at any time, none is wrong at the end.",
        "One `lab.always` (at most one event), and two `lab.at_end` (at least one event; the status is b'completed').",
    ),
    mistakes=[
        Mistake("no property", (nothing,), "No property is stated"),
        Mistake("the status alone", (status_only,), "goes out twice"),
        Mistake("the event alone", (event_only,), "leaves a done job pending"),
        Mistake("at most one event, but perhaps none", (at_most_one_and_status,), "never goes out"),
        Mistake("bytes are no text", (compares_bytes_with_text,), "in the end 'completed' is false"),
        Mistake("always where at_end is meant", (too_strict,), "half done"),
    ],
)
