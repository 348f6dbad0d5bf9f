"""Exercise: tell from the log of one job why it was begun twice: sent twice, a retry, or a redelivery."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from labkit.exercises.begun_twice import JOB, TIMEOUT, executed, log_of
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_query import Case, WriteQuery, asked

Lines = Sequence[dict[str, Any]]


def _lines(name: str) -> list[dict[str, Any]]:
    return [line for line in log_of(name) if line.get("job_id") == JOB]


def _case(name: str, wanted: str, told: str) -> Case:
    return Case(lambda query: asked(query, _lines(name)), wanted, told, partial(executed, name))


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
