"""How long `explore` takes, as multiples of one plain `fakeredis.FakeRedis.get` in the same run.

    python -m tests.benchmarks.explore [--others SECONDS] [--growth] [--profile]

Machines differ, so nothing here is in seconds; the unit is called G. `--others` also gives a plain depth-first
execution of every schedule, and a stress loop with threads, this many seconds each. `--growth` shows how cost grows
with workers and steps. `--profile` says where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import fakeredis
import redis

from labkit import Lab, explore
from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.interception import intercepted
from labkit.search.limits import memory_in_use
from tests.programs import RELEASE, article_fix, blocking_lock, naive, naive_lock, sound_fix

Scenario = Callable[[Lab], None]


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


def atomic_with_guard(lab: Lab) -> None:
    """Six workers with an atomic lock and a guard, and one mail."""

    def work(r: redis.Redis) -> None:
        if r.set("lock", "taken", nx=True):
            if r.get("status") is None:
                r.set("status", "done")
                lab.mail.send("order-1")
            r.delete("lock")

    for name in "ABCDEF":
        lab.worker(name, work, lab.redis())
    lab.always("at most one mail", lambda: lab.mail.count() <= 1)


CASES: list[tuple[str, Scenario, dict[str, Any], int | None]] = [
    ("naive completion, 2 workers", naive, {}, None),
    ("article's fix, 2 workers, 1 crash, 1 pause", article_fix, {"crashes": 1, "pauses": 1}, None),
    ("check-then-set lock, 3 workers, all schedules", naive_lock("ABC"), {}, 2_500),
    ("lock with a TTL, 3 workers, any number of pauses", lock_with_ttl, {"pauses": None}, 5_000),
    ("sound fix, retry and relay, 1 crash, 1 pause", sound_fix, {"crashes": 1, "pauses": 1}, 40_000),
    ("atomic lock and guard, 6 workers", atomic_with_guard, {}, 4_000),
    ("redis.lock.Lock, waiting, 3 workers, 1 pause", blocking_lock, {"pauses": 1}, 20_000),
    ("check-then-set lock, 5 workers, all schedules", naive_lock("ABCDE"), {}, None),
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


def depth_first(scenario: Scenario, budgets: dict[str, Any], seconds: float) -> str:
    """Every schedule executed from the start, with no states merged; what it reached."""
    with intercepted():
        engine = Engine(scenario, Budgets(**budgets))
        started, executions, todo = time.perf_counter(), 0, [()]
        while todo and time.perf_counter() - started < seconds:
            state = engine.start
            for code in (prefix := todo.pop()):
                state = engine.take(state, code).state
            while enabled := engine.enabled(state):
                todo += [(*prefix, code) for code in enabled[1:]]
                prefix = (*prefix, enabled[0])
                state = engine.take(state, enabled[0]).state
            executions += 1
        engine.close()
    return f"{executions:,} schedules" + (", all" if not todo else f", {len(todo):,}+ branches left")


def stress(seconds: float) -> str:
    """Three threads with a check-then-set lock over an embedded Redis, again and again; how often two were inside."""
    server, found, rounds, started = fakeredis.FakeServer(), 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        inside: list[int] = []

        def work(inside: list[int] = inside) -> None:
            nonlocal found
            client = fakeredis.FakeRedis(server=server)
            if client.get("lock") is None:
                client.set("lock", "taken")
                inside.append(1)
                found += len(inside) > 1
                client.get("data")
                inside.pop()
                client.delete("lock")

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rounds += 1
    return f"{rounds:,} rounds, violated in {found}"


def table(one_get: float, others: float | None) -> None:
    """The cases, one row each."""
    print(f"{'scenario':50}{'outcome':>10}{'states':>9}{'transitions':>13}{'G':>8}{'allowed':>9}{'per G':>7}{'MB':>6}")
    for name, scenario, budgets, allowed in CASES:
        verdict = min((explore(scenario, **budgets) for _ in range(3)), key=lambda verdict: verdict.seconds)
        taken = verdict.seconds / one_get
        row = f"{name:50}{verdict.outcome:>10}{verdict.states:>9,}{verdict.transitions:>13,}{taken:>8,.0f}"
        row += f"{allowed or '':>9}{verdict.transitions / taken:>7.1f}{memory_in_use():>6.0f}"
        print(row + (f"  depth-first: {depth_first(scenario, budgets, others)}" if others else ""))
    if others:
        print(f"threads, check-then-set lock: {stress(others)}")


def growth(one_get: float) -> None:
    """How cost grows with workers, and with steps."""

    def steps(count: int) -> Scenario:
        def scenario(lab: Lab) -> None:
            def work(r: redis.Redis, me: str) -> None:
                for number in range(count):
                    r.set(f"{me}{number}", uuid.uuid4().hex if number == 0 else number)

            for name in "AB":
                lab.worker(name, work, lab.redis(), name)
            lab.always("true", lambda: True)

        return scenario

    print(f"\n{'check-then-set lock':24}{'states':>10}{'G':>10}      {'2 workers, own keys':22}{'states':>8}{'G':>8}")
    for workers, count in zip(range(2, 7), (4, 8, 16, 32, 64), strict=True):
        one, other = explore(naive_lock("ABCDEF"[:workers])), explore(steps(count))
        left = f"{f'{workers} workers':24}{one.states:>10,}{one.seconds / one_get:>10,.0f}"
        print(f"{left}      {f'{count} steps each':22}{other.states:>8,}{other.seconds / one_get:>8,.0f}")


def main() -> None:
    """Print one table, and what else was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=float, metavar="SECONDS")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    os.environ["LABKIT_PROGRESS"] = "0"
    explore(naive)  # what only the first search pays: imports and caches of the libraries
    one_get = unit()
    table(one_get, options.others)
    if options.growth:
        growth(one_get)
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(explore, naive_lock("ABCDE"))
        pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    main()
