"""The stores of one lab and the state that observers look at."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from labkit.actor import Operation
from labkit.errors import Nondeterminism, PropertyError, ScenarioError
from labkit.interception import EPOCH, MICROSECONDS, serving
from labkit.stores.base import Store, fresh
from labkit.stores.clock import Clock, ClockWasRead
from labkit.stores.embedded_redis import EmbeddedRedis
from labkit.stores.services import READY_MADE, Call, ServiceLog
from labkit.stores.sql import SqlDatabase
from labkit.watchdog import watchdog

# Returns times, or a name for each of them.
DeadlineObserver = Callable[[], Iterable[float] | Mapping[str, float]]
_AGAIN = (
    "when it is built again. It is called afresh for every execution, so it must not depend on global variables "
    "that change"
)


class World:
    """Stores by slot, and how a request that no worker makes is answered.

    While the first scenario is built its requests take effect and are recorded; when it is built again for
    another run of a worker, they are answered from the record; afterwards they are an observer's, and may only read.

    Parameters
    ----------
    seed: what everything random depends on.
    absolute: whether the lab's clock belongs to the state; see `Clock`.
    """

    def __init__(self, seed: int, absolute: bool) -> None:
        self.seed, self.absolute = seed, absolute
        self.redis = EmbeddedRedis(seed, absolute)
        self.stores: list[Store] = [Clock(absolute), self.redis, SqlDatabase()]
        self.slots = {"clock": 0, "redis": 1, "sql": 2}
        self.view: list[int] = [store.start for store in self.stores]
        self.insides: dict[str, int] = {}
        self.deadlines: tuple[DeadlineObserver, ...] = ()
        self._declared: dict[tuple[int, ...], tuple[tuple[str, int], ...]] = {}
        self.asked: set[str] = set()
        self._mode = "recording"  # then "playing" while the scenario is built again, else "observing"
        self.tape: list[tuple[Operation, Any]] = []
        self._ahead: deque[tuple[Operation, Any]] = deque()
        self._thread = threading.get_ident()
        for name in READY_MADE:
            self.add_service(name, deduplicates=False)

    @contextmanager
    def building(self) -> Iterator[None]:
        """Answer the requests of a scenario that is being built, with the same chance each time."""
        if self._mode != "recording":
            self._mode, self._ahead = "playing", deque(self.tape)
        try:
            with serving.at(0, random.Random(f"{self.seed}:set-up")), watchdog.watching("the scenario's set-up"):
                serving.building = True
                yield
            if self._mode == "playing" and self._ahead:
                raise Nondeterminism(f"the scenario's set-up leaves out {self._show(self._ahead[0][0])!r} {_AGAIN}")
        finally:
            self._mode, serving.building = "observing", False

    @contextmanager
    def looking_at(self, state: tuple[int, ...], insides: dict[str, int]) -> Iterator[None]:
        """Let observers see a state: its stores, and who is inside which section."""
        self.view = list(state[: len(self.stores)])
        self.insides = insides
        serving.clock_was_read = False
        with serving.at(self.view[0], random.Random(0)), watchdog.watching("the check of a property"):
            yield
        if serving.clock_was_read and not self.absolute:
            raise ClockWasRead

    def follow_with_a_replica(self, behind: int) -> None:
        """Let a replica follow the Redis server from now on, so many writes behind."""
        self.redis.replica_lag = behind

    def declared_deadline(self, state: tuple[int, ...]) -> int | None:
        """How long until the next of the deadlines that live in data; None when there is none."""
        return min((left for _, left in self.declared_deadlines(state)), default=None)

    def declared_deadlines(self, state: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """The deadlines in data that are to come, each with its name, if it has one, and how long it is until then."""
        if not self.deadlines:
            return ()
        if not self.absolute:
            raise ClockWasRead
        view = state[: len(self.stores)]
        if view not in self._declared:
            with self.looking_at(state, {}):
                times = [pair for observer in self.deadlines for pair in self._times(observer)]
            self._declared[view] = tuple((name, time - state[0]) for name, time in times if time > state[0])
        return self._declared[view]

    @staticmethod
    def _times(observer: DeadlineObserver) -> list[tuple[str, int]]:
        """What an observer of deadlines says: names, or nothing, and times in microseconds of the lab's clock."""
        try:
            found = observer()
            pairs = found.items() if isinstance(found, Mapping) else (("", time) for time in found)
            return [(str(name), round((float(time) - EPOCH) * MICROSECONDS)) for name, time in pairs]
        except (TypeError, ValueError, OverflowError) as error:
            raise PropertyError(
                f"an observer given to lab.deadlines returns times in seconds, as time.time() does; it failed: {error}"
            ) from error

    def outside_request(self, operation: Operation) -> Any:
        """Answer a request that no worker makes: set-up, or an observer."""
        if threading.get_ident() != self._thread:
            raise ScenarioError("a thread that the lab does not know uses one of its stores; workers start no threads")
        if self._mode == "playing":
            return self._play(operation)
        slot = self.slots[operation.store]
        outcome = self.stores[slot].apply(self.view[slot], operation.request, self.view[0])
        if self._mode == "recording":
            self.tape.append((operation, outcome.reply))
            self.view[slot] = outcome.state
        elif outcome.state != self.view[slot]:
            text = self._show(operation)
            raise PropertyError(f"a property or observer changes the store with {text!r}; it may only read")
        return fresh(outcome.reply)

    def _play(self, operation: Operation) -> Any:
        expected, reply = self._ahead.popleft() if self._ahead else (None, None)
        if operation != expected:
            raise Nondeterminism(f"the scenario's set-up does something else, {self._show(operation)!r}, {_AGAIN}")
        return fresh(reply)

    def _show(self, operation: Operation) -> str:
        return self.stores[self.slots[operation.store]].describe(operation.request).text

    def add_service(self, name: str, deduplicates: bool) -> None:
        """Make a service known."""
        if name in self.slots:
            return
        log = ServiceLog(name, deduplicates)
        self.slots[name] = len(self.stores)
        self.stores.append(log)
        self.view.append(log.start)

    def effects(self, service: str) -> tuple[Call, ...]:
        """What a service did, in order."""
        slot = self.slots[service]
        calls: tuple[Call, ...] = self.stores[slot].contents(self.view[slot])
        return calls

    def inside(self, section: str) -> int:
        """How many living workers are inside a critical section."""
        self.asked.add(section)
        return self.insides.get(section, 0)
