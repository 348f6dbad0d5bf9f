"""Exercise: write the schedule after which a lock that was to expire never does."""

from __future__ import annotations

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_schedule import WriteSchedule
from labkit.lab import Lab

FREES_ITSELF = "a lock whose holder is dead frees itself"


def _work(lab: Lab, r: redis.Redis) -> None:
    with lab.section("holding"):
        if r.setnx("lock", "taken"):
            r.expire("lock", 30)
            r.incr("stock")
            r.delete("lock")


def setnx_then_expire(lab: Lab) -> None:
    """Two workers with a lock that is taken, and then given its expiry."""
    jobs = lab.redis()
    for name in "AB":
        lab.worker(name, _work, lab, lab.redis())
    lab.always(FREES_ITSELF, lambda: jobs.ttl("lock") != -1 or lab.inside("holding") > 0)


block_for_ever = WriteSchedule(
    "block_for_ever",
    "Write a schedule with one crash after which the lock is taken, nobody holds it, and it never expires.",
    names=["my_schedule"],
    starter=("A A A A B B B B",),
    solution=("A crash:A B",),
    scenario=setnx_then_expire,
    breaks=FREES_ITSELF,
    crashes=1,
    missed="The lock is free in the end, or will be. After which step of A is it taken and has no expiry yet?",
    praise="Taken for ever: the next worker, and every one after it, finds a lock that nobody can give back.",
    hints=(
        "Between which two steps of A is the lock taken and has no expiry?",
        "Kill A there: `crash:A`. No `finally` runs, nobody cleans up.",
        "A takes the lock in its first step: kill it right after that. Then let B try.",
    ),
    mistakes=[
        Mistake("nobody dies", ("A A A A B B B B",), "no expiry yet"),
        Mistake("too late", ("A A crash:A B",), "no expiry yet"),
        Mistake("no end", ("A crash:A",), "add steps"),
        Mistake("dead workers take no steps", ("A crash:A A",), "cannot be"),
        Mistake("two crashes", ("A crash:A crash:B",), "at most 1"),
    ],
)
