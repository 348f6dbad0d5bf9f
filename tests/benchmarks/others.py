"""What one would do without merging states: execute every schedule, or start threads and hope."""

from __future__ import annotations

import threading
import time
from typing import Any

import fakeredis

from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.interception import intercepted
from tests.benchmarks.cases import Scenario


def depth_first(scenario: Scenario, budgets: dict[str, Any], seconds: float, one_get: float) -> str:
    """Every schedule taken from the start, on the search's own tables, with no states merged; what it reached."""
    started, executions, todo = time.perf_counter(), 0, [()]
    with intercepted():
        engine = Engine(scenario, Budgets(**budgets))
        while todo and time.perf_counter() - started < seconds:
            state = engine.start
            for code in (prefix := todo.pop()):
                state = engine.take(state, code).state
            while enabled := engine.enabled(state):
                todo += [(*prefix, code) for code in enabled[1:]]
                prefix = (*prefix, enabled[0])
                state = engine.take(state, enabled[0]).state
            executions += 1
        taken = time.perf_counter() - started
        engine.close()
    left = f"after {seconds:g} s, {len(todo):,}+ branches left" if todo else f"all of them, in {taken / one_get:,.0f} G"
    return f"{executions:,} schedules, {left}"


def threads(seconds: float) -> str:
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

        started_threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in started_threads:
            thread.start()
        for thread in started_threads:
            thread.join()
        rounds += 1
    return f"{rounds:,} rounds in {seconds:g} s, violated in {found}"
