"""The lab as a scenario sees it in a live run: the same words on real stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from labkit.actor import Operation
from labkit.errors import ScenarioError
from labkit.lab import Lab, Service
from labkit.processes.part import Part
from labkit.processes.real_redis import real_client
from labkit.processes.real_sql import RealConnection
from labkit.stores.services import READY_MADE, Call, ServiceLog


class LiveWorld:
    """What a `Lab` asks of its world, on real stores.

    Parameters
    ----------
    part: this process's part in the run.
    effects: what a service has done, as far as observers see it; not for workers.
    inside: how many living workers are in a section, likewise.
    """

    def __init__(self, part: Part, effects: Callable[[str], tuple[Call, ...]], inside: Callable[[str], int]) -> None:
        self.part, self._effects, self._inside = part, effects, inside
        self.services = dict.fromkeys(READY_MADE, False)

    def add_service(self, name: str, deduplicates: bool) -> None:
        """Make a service known."""
        self.services[name] = deduplicates

    def effects(self, service: str) -> tuple[Call, ...]:
        """What a service did, in order."""
        return self._effects(service)

    def inside(self, section: str) -> int:
        """How many living workers are inside a critical section."""
        return self._inside(section)

    def ask(self, service: str, call: Call) -> str:
        """Ask a service for an effect; noted before and after."""
        part = self.part
        if part.mode == "playing":
            return str(part.played(service))
        part.look_at(service, changes=f"{service} {call.key}")
        journal = part.journal_at_work
        shown = ServiceLog(service).describe(call)
        number = journal.sent(service, shown.kind, shown.text) if journal is not None else 0
        answer, at = part.ask(service, self.services[service], call, journal.worker if journal is not None else "")
        part.taped(service, answer)
        if journal is not None:
            journal.got(number, answer, writes=[f"{service}:{call.key}"] if answer == "done" else [], took_effect=at)
        return answer


class LiveService(Service):
    """An outside service of a live run; see `Lab.service`."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The effects, in order; for properties and tests, not for workers."""
        self._refuse_in_a_worker()
        return super().calls

    def _refuse_in_a_worker(self) -> None:
        lab = self._lab
        assert isinstance(lab, LiveLab)
        if lab.live.part.journal is not None:
            raise ScenarioError(f"a worker cannot see what service {self.name!r} did; properties can")


class LiveLab(Lab):
    """A `Lab` whose stores are real.

    Parameters
    ----------
    world: the real stores, as this process reaches them.
    """

    def __init__(self, world: LiveWorld) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self.live = world

    def redis(self, retries: int = 0, **options: Any) -> redis.Redis:
        """A redis-py client of the run's server; see `Lab.redis`."""
        self.check_client(retries, options)
        return real_client(self.live.part, retries, **options)

    def sql(self) -> RealConnection:
        """A DB-API connection to the run's database; see `Lab.sql`."""
        return RealConnection(self.live.part)

    def _make_service(self, name: str, deduplicates: bool) -> Service:
        return LiveService(self, name, deduplicates)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Mark a critical section in a worker's code."""
        journal = self.live.part.journal_at_work
        if journal is None:
            raise ScenarioError(f"section {name!r} stands outside of any worker")
        journal.entered(name)
        try:
            yield
        finally:
            journal.left(name)

    def inside(self, section: str) -> int:
        """How many living workers are inside a critical section; for properties."""
        journal = self.live.part.journal
        if journal is not None:
            raise ScenarioError(f"lab.inside stands in worker {journal.worker}; only properties can see who is where")
        return self.live.inside(section)

    def perform(self, operation: Operation) -> Any:
        """Ask a service; Redis and the database have connections of their own."""
        return self.live.ask(operation.store, operation.request)
