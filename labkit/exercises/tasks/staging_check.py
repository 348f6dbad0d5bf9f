"""Exercise: say when a staging run has passed, so that five planted faults fail it and lock time-outs do not."""

from __future__ import annotations

from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_function import Case, WriteFunction
from labkit.incidents import StagedRun, Staging

WORLD = Staging("corrected", jobs=3, workers=2)


def _run(**what: Any) -> StagedRun:
    """A run in which all is well but for what is said of job-2."""
    as_it_should_be: dict[str, Any] = {
        "statuses": "completed",
        "answers": (202, 200),
        "events": 1,
        "writers": ("old-1",),
        "lock_timeouts": 0,
    }
    over = what.pop("over", True)
    by_job: dict[str, Any] = {
        name: {job: what.get(name, good) if job == "job-2" else good for job in WORLD.names}
        for name, good in as_it_should_be.items()
    }
    return StagedRun(world=WORLD, is_real=True, over=over, killed=(), trace=None, **by_job)


def _passes(told: str, **what: Any) -> Case:
    return Case((_run(**what),), lambda answer: answer is True, told)


def _fails(told: str, **what: Any) -> Case:
    return Case((_run(**what),), lambda answer: answer is False, told)


def starter(run: StagedRun) -> bool:
    return all(status == "completed" for status in run.statuses.values())


def solution(run: StagedRun) -> bool:
    jobs = run.statuses
    completed = all(run.statuses[job] == "completed" for job in jobs)
    no_500 = not any(500 in run.answers[job] for job in jobs)
    told_once = all(run.events[job] == 1 for job in jobs)
    one_writer = all(len(run.writers[job]) == 1 for job in jobs)
    return run.over and completed and no_500 and told_once and one_writer


# ---- mistakes


def nothing(run: StagedRun) -> None:
    pass


def accepts_all(run: StagedRun) -> bool:
    return True


def status_and_500(run: StagedRun) -> bool:
    return starter(run) and not any(500 in codes for codes in run.answers.values())


def no_event_twice(run: StagedRun) -> bool:
    return status_and_500(run) and all(count <= 1 for count in run.events.values())


def events_too(run: StagedRun) -> bool:
    return status_and_500(run) and all(count == 1 for count in run.events.values())


def different_writers(run: StagedRun) -> bool:
    return events_too(run) and all(len(set(who)) == 1 for who in run.writers.values())


def whenever_it_stops(run: StagedRun) -> bool:
    return events_too(run) and all(len(who) == 1 for who in run.writers.values())


def no_lock_timeouts(run: StagedRun) -> bool:
    return solution(run) and not any(run.lock_timeouts.values())


staging_check = WriteFunction(
    "staging_check",
    "Write my_check(run): True when a staging run has passed, False when anything is wrong with it.",
    names=["my_check"],
    starter=(starter,),
    solution=(solution,),
    cases=[
        _passes("This run is as it should be, and you do not say True. Return True or False, for every run."),
        _fails("You pass a run in which a job is left pending. Who reads the statuses?", statuses="pending"),
        _fails("You pass a run in which the API answered 500. Who reads the answers?", answers=(202, 500, 200)),
        _fails("You pass a run in which an event went out twice. Who counts the events?", events=2),
        _fails("You pass a run in which an event never went out. Is at most one enough?", events=0),
        _fails(
            "You pass a run in which two workers wrote the status of one job. The event went out once, this time. "
            "Who reads the writers?",
            writers=("old-1", "old-2"),
        ),
        _fails(
            "You pass a run in which one worker wrote the status of a job twice, from two messages. Count the writes, "
            "not the names.",
            writers=("old-1", "old-1"),
        ),
        _fails("You pass a run that was stopped before all was done. Look at run.over.", over=False),
        _passes(
            "You fail a run because of its lock time-outs. A worker that finds the lock taken has done no harm: its "
            "message comes again, and the job is completed.",
            lock_timeouts=4,
        ),
    ],
    praise="That is a staging check.",
    hints=(
        "There are five things that must not be, and each has its own field. Which field shows which?",
        "For every job: the status is completed, 500 is not among the answers, the event went out once, one write.",
        "all(run.events[job] == 1 for job in run.statuses) is one of four; the fifth is run.over. Join them by and.",
    ),
    mistakes=[
        Mistake("says nothing", (nothing,), "Return True or False"),
        Mistake("passes everything", (accepts_all,), "left pending"),
        Mistake("the status alone", (starter,), "answered 500"),
        Mistake("no events", (status_and_500,), "went out twice"),
        Mistake("at most one event, but perhaps none", (no_event_twice,), "never went out"),
        Mistake("no writers", (events_too,), "two workers wrote"),
        Mistake("different names are counted", (different_writers,), "Count the writes"),
        Mistake("a run that was stopped", (whenever_it_stops,), "before all was done"),
        Mistake("lock time-outs fail it", (no_lock_timeouts,), "because of its lock time-outs"),
    ],
)
