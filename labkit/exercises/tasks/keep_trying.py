"""Exercise: try again while another worker holds the lock: for long enough, not for ever, and not unseen."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.locks import AtomicLock
from labkit.trace import Trace
from labkit.workers import RetryPolicy

LEASE, MOST = 30, 10

DONE = "the job of a worker that died with the lock is completed"
HONEST = "nobody says done of a job that is not"
QUIET = "a lock that is free counts as no time-out"
FEW = "there are at most ten attempts"
COUNTED = "each lock time-out is counted"
HANDED_ON = "a job that is given up is handed on"
KNOWN = "a job that is completed is not handed on"
THEIRS = "nobody takes away another's lock"

Complete = Callable[[redis.Redis, str], bool]
KeepTrying = Callable[[redis.Redis, str, Complete], object]


def complete(r: redis.Redis, job: str) -> bool:
    """Complete a job under its lock; False when another has the lock."""
    lock = AtomicLock(r, f"job_lock:{job}", timeout=LEASE)
    if not lock.acquire(blocking=False):
        return False
    r.set(f"job_status:{job}", "completed")
    lock.release()
    return True


def _work(r: redis.Redis, keep_trying: KeepTrying, seen: Service) -> None:
    """What calls the learner's function: whoever does not complete the job hands it on."""
    answers = []

    def watched(r: redis.Redis, job: str) -> bool:
        answers.append(complete(r, job))
        if not answers[-1]:
            seen.call("lock time-out")
        return answers[-1]

    if not keep_trying(r, "1", watched):
        r.rpush("given_up", "1")
    elif not any(answers):
        seen.call("said done")


def _world(lab: Lab, keep_trying: KeepTrying, workers: str) -> tuple[redis.Redis, Service]:
    jobs, seen = lab.redis(), lab.service("seen")
    jobs.set("job_status:1", "in-progress")
    for name in workers:
        lab.worker(name, _work, lab.redis(), keep_trying, seen)
    lab.always(HONEST, lambda: seen.count("said done") == 0)
    lab.always(FEW, lambda: seen.count("lock time-out") <= MOST * len(workers))
    return jobs, seen


def free(keep_trying: KeepTrying) -> Scenario:
    """One worker, and nobody else."""

    def free_lock(lab: Lab) -> None:
        jobs, _ = _world(lab, keep_trying, "A")
        lab.at_end(QUIET, lambda: int(jobs.get("lock_timeouts") or 0) == 0)
        lab.at_end(KNOWN, lambda: jobs.llen("given_up") == 0)

    return free_lock


def stuck(keep_trying: KeepTrying) -> Scenario:
    """A lock that nobody ever frees."""

    def lock_that_stays(lab: Lab) -> None:
        jobs = _behind_an_operator(lab, keep_trying, "A")
        lab.always(THEIRS, lambda: jobs.get("job_lock:1") == b"an operator")
        lab.at_end(HANDED_ON, lambda: jobs.llen("given_up") == 1)

    return lock_that_stays


def both_wait(keep_trying: KeepTrying) -> Scenario:
    """Two workers at a lock that is free a second later."""

    def two_at_a_lock(lab: Lab) -> None:
        _behind_an_operator(lab, keep_trying, "AB", seconds=1)

    return two_at_a_lock


def _behind_an_operator(lab: Lab, keep_trying: KeepTrying, workers: str, seconds: int | None = None) -> redis.Redis:
    jobs, seen = _world(lab, keep_trying, workers)
    jobs.set("job_lock:1", "an operator", ex=seconds)
    lab.at_end(COUNTED, lambda: int(jobs.get("lock_timeouts") or 0) == seen.count("lock time-out"))
    return jobs


def dead_holder(keep_trying: KeepTrying) -> Scenario:
    """Two workers, one of which may die, with the lock or without."""

    def holder_may_die(lab: Lab) -> None:
        jobs, _ = _world(lab, keep_trying, "AB")
        lab.at_end(DONE, lambda: jobs.get("job_status:1") == b"completed")

    return holder_may_die


def why_undone(trace: Trace) -> str:
    """What to look at when the survivor gave up."""
    tries = [event.time / 1e6 for event in trace.events if "NX" in event.text.split()]
    if not tries:
        return "The job is not completed: nobody has called complete."
    return (
        f"One worker died with the lock, and the last attempt of the other came after {max(tries):g} s. "
        f"When is a dead worker's lock free?"
    )


def starter(r: redis.Redis, job: str, complete: Complete) -> bool:
    policy = RetryPolicy(max_attempts=3)
    for attempt in range(1, policy.max_attempts + 1):
        if complete(r, job):
            return True
        time.sleep(policy.back_off(attempt))
    return False


def solution(r: redis.Redis, job: str, complete: Complete) -> bool:
    policy = RetryPolicy(max_attempts=6)
    for attempt in range(1, policy.max_attempts + 1):
        if complete(r, job):
            return True
        r.incr("lock_timeouts")
        time.sleep(policy.back_off(attempt))
    return False


# ---- mistakes


def _tries(r: redis.Redis, job: str, complete: Complete, *waits: float) -> bool:
    for wait in waits:
        if complete(r, job):
            return True
        r.incr("lock_timeouts")
        time.sleep(wait)
    return False


def tries_once(r: redis.Redis, job: str, complete: Complete) -> bool:
    return _tries(r, job, complete, 0.5)


def gives_up_after_fifteen_seconds(r: redis.Redis, job: str, complete: Complete) -> bool:
    return _tries(r, job, complete, 1, 2, 4, 8, 1)


def asks_each_second(r: redis.Redis, job: str, complete: Complete) -> bool:
    return _tries(r, job, complete, *[1] * 40)


def never_gives_up(r: redis.Redis, job: str, complete: Complete) -> bool:
    while not complete(r, job):
        r.incr("lock_timeouts")
        time.sleep(10)
    return True


def counts_nothing(r: redis.Redis, job: str, complete: Complete) -> bool:
    for wait in (1, 2, 4, 8, 16, 32):
        if complete(r, job):
            return True
        time.sleep(wait)
    return False


def counts_each_attempt(r: redis.Redis, job: str, complete: Complete) -> bool:
    r.incr("lock_timeouts")
    return complete(r, job) or _tries(r, job, complete, 1, 2, 4, 8, 16, 1)


def says_done(r: redis.Redis, job: str, complete: Complete) -> bool:
    _tries(r, job, complete, 1, 2, 4, 8, 16, 1)
    return True


def never_calls(r: redis.Redis, job: str, complete: Complete) -> bool:
    return False


def done_and_says_nothing(r: redis.Redis, job: str, complete: Complete) -> bool | None:
    for wait in (1, 2, 4, 8, 16, 1):
        if complete(r, job):
            return None
        r.incr("lock_timeouts")
        time.sleep(wait)
    return False


def breaks_the_lock(r: redis.Redis, job: str, complete: Complete) -> bool:
    r.delete(f"job_lock:{job}")
    return complete(r, job)


def reads_and_writes_the_count(r: redis.Redis, job: str, complete: Complete) -> bool:
    for wait in (1, 2, 4, 8, 16, 1):
        if complete(r, job):
            return True
        r.set("lock_timeouts", int(r.get("lock_timeouts") or 0) + 1)
        time.sleep(wait)
    return False


keep_trying = WriteProgram(
    "keep_trying",
    "Write my_complete(r, job, complete): call complete(r, job) until it returns True, with growing waits and a limit; "
    "return whether it did. Count each lock time-out in the key lock_timeouts.",
    names=["my_complete"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "A worker dies with the lock just before your first attempt. When must your last attempt come?",
        "Waits of 1, 2, 4, 8 seconds are over after 15. Ask the policy: `policy.outlasts(30)`.",
        "max_attempts=6 waits for 31 seconds. After each attempt that fails: r.incr('lock_timeouts'), then sleep.",
    ),
    worlds=[
        World(
            free,
            {
                QUIET: "The lock was free, and you have counted a time-out. Count only what failed.",
                HONEST: "You say done, and complete never returned True.",
                FEW: "More than ten attempts. Let the waits grow, and give up in the end.",
                KNOWN: "The lock was free, and the job is handed on all the same. Do you call complete, and return "
                "whether it was completed?",
            },
        ),
        World(
            stuck,
            {
                THEIRS: "You have taken away a lock that another one holds. It says that somebody is at work.",
                FEW: "That is the eleventh attempt at one lock. Let the waits grow, and give up in the end, so that "
                "somebody hears of it.",
                HONEST: "You say done after the last attempt has failed: whoever called you acks, and the job is gone.",
                COUNTED: "The lock was taken, and lock_timeouts does not say how often: nobody sees it coming.",
                HANDED_ON: "The job is neither done nor handed on.",
            },
        ),
        World(
            both_wait,
            {
                HONEST: "You say done, and complete never returned True.",
                FEW: "More than ten attempts. Let the waits grow, and give up in the end.",
                COUNTED: "Two workers counted at the same time, and lock_timeouts has not all of it. Is your count one "
                "step?",
            },
        ),
        World(
            dead_holder,
            {
                HONEST: "You say done, and complete never returned True.",
                FEW: "More than ten attempts. Let the waits grow, and give up in the end.",
                DONE: why_undone,
            },
            {"crashes": 1},
        ),
    ],
    praise="You outlast a dead worker's lock, you give up on one that stays, and somebody can see both.",
    mistakes=[
        Mistake("one attempt", (tries_once,), "came after 0 s"),
        Mistake("gives up before the lock does", (gives_up_after_fifteen_seconds,), "came after 15 s"),
        Mistake("a wait that does not grow", (asks_each_second,), "eleventh attempt"),
        Mistake("no limit", (never_gives_up,), "eleventh attempt"),
        Mistake("no metric", (counts_nothing,), "does not say how often"),
        Mistake("counts attempts", (counts_each_attempt,), "Count only what failed"),
        Mistake("says done at the end", (says_done,), "whoever called you acks"),
        Mistake("never calls complete", (never_calls,), "Do you call complete"),
        Mistake("done, and returns nothing", (done_and_says_nothing,), "return whether it was completed"),
        Mistake("breaks the lock", (breaks_the_lock,), "a lock that another one holds"),
        Mistake("counts in two steps", (reads_and_writes_the_count,), "Is your count one step"),
    ],
)
