"""The programs in frontrun: threads, real redis-py clients, a real redis-server. Run by `peers`.

As its documentation advises, commands are told apart by key (`detect_io`, on by default), and time is virtual where a
program sleeps. The clients are connected before, so that no schedule is spent on connecting.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import frontrun
import redis
import redis.lock

from labkit.processes.server import redis_server
from tests.benchmarks.cases import FIVE, GUARD, NAIVE, THREE, WAITING
from tests.benchmarks.peers import answer
from tests.programs import LOCK, STATUS, check_then_set, guarded_by_a_lock, naive_completion


@dataclass
class State:
    """What the threads share: clients of one server, what was sent, and who is inside."""

    clients: list[redis.Redis]
    sent: list[str] = field(default_factory=list)
    inside: int = 0
    most_inside: int = 0

    def publish(self, key: str) -> None:
        self.sent.append(key)

    send = publish

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        yield
        self.inside -= 1


@dataclass
class Program:
    """How many threads run what, and what must hold of the state then."""

    count: int
    work: Callable[[redis.Redis, State], object]
    holds: Callable[[State], bool]
    clock: str = "real"


def wait_for_the_lock(r: redis.Redis, state: State) -> None:
    with redis.lock.Lock(r, "lock", timeout=10), state.section("inside"):
        r.get("data")


def one_mail(state: State) -> bool:
    return len(state.sent) <= 1


def one_inside(state: State) -> bool:
    return state.most_inside <= 1


PROGRAMS = {
    NAIVE: Program(2, naive_completion, one_mail),
    THREE: Program(3, lambda r, state: check_then_set(r, state.section), one_inside),
    GUARD: Program(6, guarded_by_a_lock, one_mail),
    WAITING: Program(3, wait_for_the_lock, one_inside, clock="virtual"),
    FIVE: Program(5, lambda r, state: check_then_set(r, state.section), one_inside),
}


def ask(program: Program, first: bool, url: str, seconds: float) -> dict[str, Any]:
    clients = [redis.Redis.from_url(url) for _ in range(program.count)]

    def set_up() -> State:
        clients[0].delete("lock", "data", "status", STATUS, LOCK)
        for client in clients:
            client.ping()
        return State(clients)

    def thread(number: int) -> Callable[[State], object]:
        return lambda state: program.work(state.clients[number], state)

    bound = {} if first else {"preemption_bound": None}
    started = time.perf_counter()
    result = frontrun.explore(
        setup=set_up,
        workers=[thread(number) for number in range(program.count)],
        invariant=program.holds,
        stop_on_first=first,
        total_timeout=seconds,
        reproduce_on_failure=0,
        clock=program.clock,
        **bound,
    )
    taken = time.perf_counter() - started
    outcome = "violated" if result.property_holds is False else "no violation"
    done = taken < seconds and result.property_holds is not None
    return {"outcome": outcome, "runs": result.num_explored, "seconds": taken, "done": done}


if __name__ == "__main__":
    with redis_server() as url:
        answer(PROGRAMS, lambda program, first: ask(program, first, url, float(sys.argv[1])))
