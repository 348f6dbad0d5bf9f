"""The programs in detangle: asyncio tasks, over a dictionary that awaits once per command. Run by `peers`.

As its documentation says, the store is faked, every command is an await, and `invariant` is checked after each step.
The waiting lock is redis-py's own, on fakeredis's asyncio client.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import detangle
import fakeredis
import redis.asyncio.lock

from tests.benchmarks.cases import FIVE, GUARD, NAIVE, THREE, WAITING
from tests.benchmarks.peers import answer

EVERY_SCHEDULE = 10**9


class Keys:
    """As much of Redis as the programs need."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        await asyncio.sleep(0)
        return self.kept.get(key)

    async def set(self, key: str, value: str, nx: bool = False) -> bool | None:
        await asyncio.sleep(0)
        if nx and key in self.kept:
            return None
        self.kept[key] = value
        return True

    async def delete(self, key: str) -> None:
        await asyncio.sleep(0)
        self.kept.pop(key, None)


async def send(sent: list[int]) -> None:
    await asyncio.sleep(0)
    sent.append(1)


async def naive_completion(r: Keys, sent: list[int]) -> None:
    if await r.get("status") != "completed":
        await r.set("status", "completed")
        await send(sent)


async def check_then_set(r: Keys, inside: list[int]) -> None:
    if await r.get("lock") is None:
        await r.set("lock", "taken")
        inside.append(1)
        await r.get("data")
        inside.pop()
        await r.delete("lock")


async def guarded_by_a_lock(r: Keys, sent: list[int]) -> None:
    if await r.set("lock", "taken", nx=True):
        if await r.get("status") is None:
            await r.set("status", "done")
            await send(sent)
        await r.delete("lock")


async def wait_for_the_lock(r: Any, inside: list[int]) -> None:
    async with redis.asyncio.lock.Lock(r, "lock", timeout=10):
        inside.append(1)
        await r.get("data")
        inside.pop()


def clients_of_keys() -> Callable[[], Keys]:
    keys = Keys()
    return lambda: keys


def clients_of_fakeredis() -> Callable[[], Any]:
    server = fakeredis.FakeServer()
    return lambda: fakeredis.FakeAsyncRedis(server=server)


@dataclass
class Program:
    """How many tasks run what, on clients of which store."""

    count: int
    work: Callable[..., Any]
    stores: Callable[[], Callable[[], Any]] = clients_of_keys


PROGRAMS = {
    NAIVE: Program(2, naive_completion),
    THREE: Program(3, check_then_set),
    GUARD: Program(6, guarded_by_a_lock),
    WAITING: Program(3, wait_for_the_lock, clients_of_fakeredis),
    FIVE: Program(5, check_then_set),
}


def ask(program: Program, first: bool, seconds: float) -> dict[str, Any]:
    runs = 0

    async def main() -> None:
        nonlocal runs
        runs += 1
        client, seen = program.stores(), []  # who is inside, or what was sent
        if first:  # else a violation would end the search
            detangle.invariant(lambda: len(seen) <= 1)
        await asyncio.gather(*(program.work(client(), seen) for _ in range(program.count)))

    sleeps = program.stores is clients_of_fakeredis
    search = {} if first else {"strategy": detangle.DFS(max_delays=EVERY_SCHEDULE), "runs": EVERY_SCHEDULE}
    started = time.perf_counter()
    try:
        # Shrinking makes a counterexample nicer, and does not belong to finding it.
        stats = detangle.explore(main, max_duration=seconds, database=False, patch_time=sleeps, shrink=False, **search)
        # By default it ends after a number of runs.
        outcome, done = "no violation", stats.exhausted or (first and stats.elapsed < seconds)
    except detangle.BugFound:
        outcome, done = "violated", False
    return {"outcome": outcome, "runs": runs, "seconds": time.perf_counter() - started, "done": done}


if __name__ == "__main__":
    answer(PROGRAMS, lambda program, first: ask(program, first, float(sys.argv[1])))
