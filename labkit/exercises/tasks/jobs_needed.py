"""Exercise: how many jobs must a staging test have, so that it misses the fault in fewer than one of 100 tests?"""

from __future__ import annotations

import math
import numbers
from typing import Any

from labkit import Sample
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_function import Case, WriteFunction

FAULT = "an event twice"
MISSED = 0.01


def _seen(hits: int, executions: int) -> Sample:
    return Sample(executions, {FAULT: hits} if hits else {}, {}, "jobs")


def _fewest(rate: float) -> int:
    return math.ceil(math.log(MISSED) / math.log(1 - rate))


def _is_number(answer: Any) -> bool:
    return isinstance(answer, numbers.Real) and not isinstance(answer, bool)  # numpy's numbers are numbers too


def _shown(answer: Any) -> str:
    return f"{answer:g}" if abs(answer) < 1e300 or isinstance(answer, float) else "a number of hundreds of digits"


def _told(seen: Sample) -> Any:
    low, high = seen.interval(FAULT)
    rate, right = seen.rate(FAULT), _fewest(low)
    head = f"Seen in {seen.hits[FAULT]} of {seen.executions} jobs: "

    def told(answer: Any) -> str:
        if not _is_number(answer):
            return f"{head}your answer is {answer!r}. It must be a number of jobs."
        if not 0 <= answer < 10_000_000:
            return f"{head}{_shown(answer)} is no number of jobs."
        if answer == _fewest(rate) != right:
            return f"{head}{answer} would do if the true share were just what was seen. It may be as low as {low:.2%}."
        if answer == _fewest(high):
            return f"{head}{answer} is for the upper end of the interval, where luck is on your side. Take the lower."
        if answer in (math.ceil(1 / low), math.ceil(1 / rate)):
            return f"{head}with {answer} jobs you expect to see it once, and miss it in a third of all tests."
        if answer in (_fewest(low) - 1, math.log(MISSED) / math.log(1 - low)):
            return f"{head}{answer:g} jobs are not quite enough, and there is no part of a job. Round up."
        return (
            f"{head}the share may be as low as {low:.2%}. {answer:g} jobs all miss it with a chance of "
            f"{(1 - low) ** answer:.2%}; the smallest number below 1 % is asked for."
        )

    return told


def _asked(hits: int, executions: int) -> Case:
    seen = _seen(hits, executions)
    right = _fewest(seen.interval(FAULT)[0])
    return Case((seen, FAULT), lambda answer: _is_number(answer) and answer == right, _told(seen))


def starter(seen: Sample, name: str) -> int | None:
    return math.ceil(1 / seen.rate(name)) if seen.rate(name) else None


def solution(seen: Sample, name: str) -> int | None:
    if seen.rate(name) == 0:
        return None
    p = seen.interval(name)[0]
    return math.ceil(math.log(0.01) / math.log(1 - p))


# ---- mistakes


def the_share_that_was_seen(seen: Sample, name: str) -> int:
    return math.ceil(math.log(0.01) / math.log(1 - seen.rate(name)))


def the_upper_end(seen: Sample, name: str) -> int:
    return math.ceil(math.log(0.01) / math.log(1 - seen.interval(name)[1]))


def not_rounded(seen: Sample, name: str) -> float:
    return math.log(0.01) / math.log(1 - seen.interval(name)[0])


def too_many(seen: Sample, name: str) -> int:
    return 1_000_000


def as_text(seen: Sample, name: str) -> str:
    return "many"


def a_number_for_nothing_seen(seen: Sample, name: str) -> int | None:
    return solution(seen, name) or 1_000_000


def no_thought_of_nothing_seen(seen: Sample, name: str) -> int:
    return math.ceil(math.log(0.01) / math.log(1 - seen.interval(name)[0]))


def astronomically_many(seen: Sample, name: str) -> int:
    return 10**400


jobs_needed = WriteFunction(
    "jobs_needed",
    "Write my_jobs(seen, name): the smallest number of jobs of which all miss the fault with a chance below 1 %.",
    names=["my_jobs"],
    starter=(starter,),
    solution=(solution,),
    cases=[
        _asked(60, 500),
        _asked(1, 100),
        Case(
            (_seen(0, 500), FAULT),
            lambda answer: answer is None,
            "The fault was seen in 0 of 500 jobs, and you name a number. The share may be zero: then no number is "
            "enough. Return None.",
            "Nothing was seen in 500 jobs: ",
        ),
    ],
    praise="So many jobs, and no luck needed.",
    hints=(
        "If one job shows the fault with a chance of p, what is the chance that two jobs both miss it? And n jobs?",
        "n jobs all miss it with a chance of (1 - p) ** n. Which end of seen.interval(name) is the p to be safe with?",
        "(1 - p) ** n < 0.01 means n > math.log(0.01) / math.log(1 - p). Round up. Nothing seen at all: None.",
    ),
    mistakes=[
        Mistake("the share that was seen", (the_share_that_was_seen,), "just what was seen"),
        Mistake("the upper end", (the_upper_end,), "upper end"),
        Mistake("one over the share", (starter,), "a third of all tests"),
        Mistake("not rounded", (not_rounded,), "Round up"),
        Mistake("far too many", (too_many,), "smallest number"),
        Mistake("no number", (as_text,), "must be a number"),
        Mistake("far more than there are", (astronomically_many,), "is no number of jobs"),
        Mistake("nothing seen: a division by zero", (no_thought_of_nothing_seen,), "Nothing was seen in 500 jobs"),
        Mistake("nothing seen, and still a number", (a_number_for_nothing_seen,), "Return None"),
    ],
)
