"""Exercise: take a lock and give it back, so that it has one owner and outlives nobody."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.trace import Trace

LEASE = 30
RELEASE = """-- release if mine
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])"""

TAKEN = "a free lock is taken"
EXPIRES = "while A works, the lock will expire within 30 seconds"
LASTS = "while A works, the lock has 30 seconds"
FREE = "the lock is free again after the work"
ONE = "at most one worker is inside"
FREES_ITSELF = "a dead holder's lock frees itself"
THEIRS = "nobody gives back another's lock"

Acquire = Callable[[redis.Redis, str, str], object]
Release = Callable[[redis.Redis, str, str], object]


def _work(lab: Lab, r: redis.Redis, token: str, acquire: Acquire, release: Release) -> None:
    if acquire(r, "lock", token):
        with lab.section("inside"):
            r.incr("done")
        release(r, "lock", token)


def alone(acquire: Acquire, release: Release) -> Scenario:
    """One worker, and nobody else."""

    def one_worker(lab: Lab) -> None:
        jobs = lab.redis()
        lab.worker("A", _work, lab, lab.redis(), "token-of-A", acquire, release)
        lab.always(EXPIRES, lambda: lab.inside("inside") == 0 or 0 < jobs.ttl("lock") <= LEASE)
        lab.always(LASTS, lambda: lab.inside("inside") == 0 or not 0 < jobs.ttl("lock") < LEASE - 1)
        lab.at_end(TAKEN, lambda: jobs.get("done") is not None)
        lab.at_end(FREE, lambda: jobs.exists("lock") == 0)

    return one_worker


def together(acquire: Acquire, release: Release) -> Scenario:
    """Two workers that want it at the same time."""

    def two_workers(lab: Lab) -> None:
        for name in "AB":
            lab.worker(name, _work, lab, lab.redis(), f"token-of-{name}", acquire, release)
        lab.always(ONE, lambda: lab.inside("inside") <= 1)

    return two_workers


def _work_later(lab: Lab, r: redis.Redis, acquire: Acquire, release: Release) -> None:
    time.sleep(2 * LEASE)
    _work(lab, r, "token-of-later", acquire, release)
    r.set("later", "was here")


def after_a_crash(acquire: Acquire, release: Release) -> Scenario:
    """A worker that may be killed, and one that wants the lock a minute later."""

    def worker_and_successor(lab: Lab) -> None:
        jobs = lab.redis()
        lab.worker("A", _work, lab, lab.redis(), "token-of-A", acquire, release)
        lab.worker("later", _work_later, lab, lab.redis(), acquire, release, spared=True)
        lab.at_end(FREES_ITSELF, lambda: jobs.exists("lock") == 0)

    return worker_and_successor


def _take_and_look(r: redis.Redis, acquire: Acquire, alarm: Service) -> None:
    time.sleep(LEASE)
    if acquire(r, "lock", "token-of-B") and r.exists("lock") == 0:
        alarm.call("B's lock is gone")


def late(acquire: Acquire, release: Release) -> Scenario:
    """A worker that may be paused, and one that takes the lock when the first lease has ended."""

    def late_worker(lab: Lab) -> None:
        alarm = lab.service("alarm")
        lab.worker("A", _work, lab, lab.redis(), "token-of-A", acquire, release)
        lab.worker("B", _take_and_look, lab.redis(), acquire, alarm, spared=True)  # spared: its own lease lasts
        lab.always(THEIRS, lambda: alarm.count() == 0)

    return late_worker


def why_both(trace: Trace) -> str:
    """What to look at when two workers are inside."""
    if any(set(event.reads) - set(event.writes) and "NX" not in event.text for event in trace.events):
        return "Both are inside. Each looked before the other had taken it: check-then-set."
    return "Both are inside. acquire says yes to both: does it return what Redis answered?"


def why_theirs(trace: Trace) -> str:
    """What to look at when B's lock is deleted."""
    of_a = [event.text.split()[0] for event in trace.events if event.worker == "A"]
    if "GET" in of_a:  # acquire takes it in one step: the world before this one has asked
        return "A looked whose lock it is, and deleted it later. In between, it became B's. One step, not two."
    return "A comes late, and deletes B's lock. How can it know whose lock it deletes?"


def starter_acquire(r: redis.Redis, name: str, token: str) -> bool:
    if r.get(name) is None:
        r.set(name, token)
        return True
    return False


def starter_release(r: redis.Redis, name: str, token: str) -> None:
    r.delete(name)


def solution_acquire(r: redis.Redis, name: str, token: str) -> bool:
    return bool(r.set(name, token, nx=True, ex=30))


def solution_release(r: redis.Redis, name: str, token: str) -> None:
    r.eval(RELEASE, 1, name, token)


# ---- mistakes


def check_then_set(r: redis.Redis, name: str, token: str) -> bool:
    return r.get(name) is None and bool(r.set(name, token, ex=LEASE))


def setnx_then_expire(r: redis.Redis, name: str, token: str) -> bool:
    return bool(r.setnx(name, token)) and bool(r.expire(name, LEASE))


def for_ever(r: redis.Redis, name: str, token: str) -> bool:
    return bool(r.set(name, token, nx=True))


def for_an_hour(r: redis.Redis, name: str, token: str) -> bool:
    return bool(r.set(name, token, nx=True, ex=3600))


def says_nothing(r: redis.Redis, name: str, token: str) -> None:
    r.set(name, token, nx=True, ex=LEASE)


def get_then_delete(r: redis.Redis, name: str, token: str) -> None:
    if r.get(name) == token.encode():
        r.delete(name)


def compares_text_with_bytes(r: redis.Redis, name: str, token: str) -> None:
    if r.get(name) == token:
        r.delete(name)


def always_yes(r: redis.Redis, name: str, token: str) -> bool:
    r.set(name, token, nx=True, ex=LEASE)
    return True


def for_a_second(r: redis.Redis, name: str, token: str) -> bool:
    return bool(r.set(name, token, nx=True, ex=1))


def waits_at_random(r: redis.Redis, name: str, token: str) -> bool:
    time.sleep(random.random())
    return check_then_set(r, name, token)


take_and_release = WriteProgram(
    "take_and_release",
    "Write acquire(r, name, token), which says whether it took the lock, and release(r, name, token). "
    "The lock is to expire after 30 seconds.",
    names=["acquire", "release"],
    starter=(starter_acquire, starter_release),
    solution=(solution_acquire, solution_release),
    hints=(
        "Each of the two functions must be one step. Which command takes a key only if it does not exist?",
        "`r.set(name, token, nx=True, ex=30)` does everything at once. To give it back, run the script RELEASE.",
        "acquire: `return bool(r.set(name, token, nx=True, ex=30))`; release: `r.eval(RELEASE, 1, name, token)`.",
    ),
    worlds=[
        World(
            alone,
            {
                TAKEN: "The lock is free, and still acquire says no. Does it return what it found out?",
                EXPIRES: "The lock has no expiry of 30 seconds while A works. Who frees it if A dies now?",
                LASTS: "The lock has less than 30 seconds: it ends while A works, and the next one comes in.",
                FREE: "The work is over, and the lock is still there. Does release delete it, for its owner?",
            },
        ),
        World(together, {ONE: why_both}, wakes=True),
        World(
            after_a_crash,
            {FREES_ITSELF: "Killed between taking the lock and giving it its expiry, A blocks everybody for ever."},
            {"crashes": 1},
        ),
        World(late, {THEIRS: why_theirs}, {"pauses": 1}, may_raise=("LockNotOwnedError",)),
    ],
    praise="One owner, an expiry from the first moment on, and nobody gives back another's lock.",
    mistakes=[
        Mistake("check-then-set", (check_then_set, solution_release), "check-then-set"),
        Mistake("no TTL", (for_ever, solution_release), "Who frees it if A dies"),
        Mistake("a TTL that is much too long", (for_an_hour, solution_release), "no expiry of 30 seconds"),
        Mistake("SETNX, then EXPIRE", (setnx_then_expire, solution_release), "blocks everybody for ever"),
        Mistake("a TTL that is much too short", (for_a_second, solution_release), "less than 30 seconds"),
        Mistake("acquire says yes to everybody", (always_yes, solution_release), "what Redis answered"),
        Mistake("a wait at random", (waits_at_random, solution_release), "only makes it rare"),
        Mistake("acquire returns nothing", (says_nothing, solution_release), "Does it return what it found out"),
        Mistake("no owner check", (solution_acquire, starter_release), "How can it know whose lock"),
        Mistake("GET, then DEL", (solution_acquire, get_then_delete), "deleted it later"),
        Mistake("bytes are no text", (solution_acquire, compares_text_with_bytes), "the lock is still there"),
    ],
)
