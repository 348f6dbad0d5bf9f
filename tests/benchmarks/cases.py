"""What is measured: scenarios, the budgets they are searched with, and how many G each may take."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import fakeredis
import redis

from labkit import Lab
from tests.programs import RELEASE, article_fix, atomic_with_guard, blocking_lock, naive, naive_lock, sound_fix

Scenario = Callable[[Lab], None]


class Case(NamedTuple):
    """One line of the table.

    Parameters
    ----------
    name: what it is.
    scenario, budgets: what is searched.
    allowed: how many G it may take; None where nobody has said.
    """

    name: str
    scenario: Scenario
    budgets: dict[str, Any]
    allowed: int | None


def lock_with_ttl(lab: Lab) -> None:
    """A lock with a time to live, released with a script, around one command."""

    def work(r: redis.Redis, me: str) -> None:
        if r.set("lock", me, nx=True, px=1_000):
            with lab.section("inside"):
                r.get("data")
            r.eval(RELEASE, 1, "lock", me)

    for name in "ABC":
        lab.worker(name, work, lab.redis(), name)
    lab.always("one inside", lambda: lab.inside("inside") <= 1)
    lab.always("true", lambda: True)


def own_keys(steps: int, workers: str = "AB") -> Scenario:
    """Workers that take so many steps each, all on keys of their own."""

    def scenario(lab: Lab) -> None:
        def work(r: redis.Redis, me: str) -> None:
            for number in range(steps):
                r.set(f"{me}{number}", uuid.uuid4().hex if number == 0 else number)

        for name in workers:
            lab.worker(name, work, lab.redis(), name)
        lab.always("true", lambda: True)

    return scenario


NAIVE = "naive completion, 2 workers"
ARTICLE = "article's fix, 2 workers, 1 crash, 1 pause"
THREE = "check-then-set lock, 3 workers, all schedules"
TTL = "lock with a TTL, 3 workers, any number of pauses"
SOUND = "sound fix, retry and relay, 1 crash, 1 pause"
GUARD = "atomic lock and guard, 6 workers"
WAITING = "redis.lock.Lock, waiting, 3 workers, 1 pause"
FIVE = "check-then-set lock, 5 workers, all schedules"

CASES = [
    Case(NAIVE, naive, {}, None),
    Case(ARTICLE, article_fix, {"crashes": 1, "pauses": 1}, None),
    Case(THREE, naive_lock("ABC"), {}, 2_500),
    Case(TTL, lock_with_ttl, {"pauses": None}, 5_000),
    Case(SOUND, sound_fix, {"crashes": 1, "pauses": 1}, 40_000),
    Case(GUARD, atomic_with_guard, {}, 4_000),
    Case(WAITING, blocking_lock, {"pauses": 1}, 20_000),
    Case(FIVE, naive_lock("ABCDE"), {}, None),
]


def unit() -> float:
    """Seconds of one plain GET, the median of several rounds."""
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    rounds = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(2_000):
            client.get("key")
        rounds.append((time.perf_counter() - started) / 2_000)
    return statistics.median(rounds)
