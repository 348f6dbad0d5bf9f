"""The lab as a scenario sees it: it builds the world, then names what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import redis

from labkit.actor import Lost, Operation
from labkit.errors import ScenarioError
from labkit.interception import MICROSECONDS, serving
from labkit.process import current_process
from labkit.properties import Property
from labkit.schedule import is_worker_name
from labkit.sharing import Ownership
from labkit.stores.commands import Request
from labkit.stores.connection import LabPool, lab_client
from labkit.stores.services import READY_MADE, Call
from labkit.stores.sql_connection import SqlConnection
from labkit.world import DeadlineObserver, World

LONGEST_SHIFT = 31_536_000  # seconds that a wall clock may be wrong by: a year
_CLIENT_OPTIONS = {"db", "decode_responses", "encoding", "encoding_errors", "protocol"}
Scenario = Callable[["Lab"], None]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What a scenario says of one worker; see `Lab.worker`."""

    name: str
    function: Callable[..., object]
    arguments: tuple[Any, ...]
    spared: bool
    forever: bool
    signals: int
    skew: int
    jump: int

    def code(self) -> Callable[[], object]:
        """The worker's function with its arguments bound."""
        return lambda: self.function(*self.arguments)

    @property
    def options(self) -> WorkerPlan:
        """What else is said of it: equal for workers that differ at most in name, function and arguments."""
        return replace(self, name="", function=Lab, arguments=())


class Lab:
    """The world of one execution: stores, services, workers and properties.

    A scenario is a function that is given a `Lab` and builds its world with it. It is called afresh for every
    execution, so it must build the same world each time. What it does itself takes no step.
    """

    _shareable = True

    def __init__(self, world: World) -> None:
        self.world = world
        self._clients: list[tuple[Any, redis.Redis]] = []
        self._databases: list[SqlConnection] = []
        self.rewind()

    def rewind(self) -> None:
        """Be as new, for another run of a worker."""
        self.workers: dict[str, WorkerPlan] = {}
        self.properties: list[Property] = []
        self.replica_lag = 1
        self.deadline_observers: list[DeadlineObserver] = []
        self._services: dict[str, Service] = {}
        self._ownership = Ownership()
        self._next_client = self._next_sql = 0
        for database in self._databases:
            database.rewind()
        for _, client in self._clients:
            pool = client.connection_pool
            assert isinstance(pool, LabPool)
            pool.rewind()

    def retire(self) -> None:
        """Let go of the world, for a lab whose killed worker is kept for ever."""
        self.world = None  # type: ignore[assignment]
        for kept in (self.workers, self.properties, self._clients, self._databases, self._services):
            kept.clear()

    def redis(self, retries: int = 0, **options: Any) -> redis.Redis:
        """A redis-py client of the lab's Redis; give each worker its own.

        Parameters
        ----------
        retries: how often the client sends a request again when its reply was lost. Real clients default
            to several; here it is none, since a request that is sent twice may take effect twice.
        options: as for `redis.Redis`, for example `decode_responses=True`.
        """
        self.check_client(retries, options)
        wanted = (retries, tuple(sorted(options.items())))
        index = self._next_client
        self._next_client += 1
        # Building a client costs more than running a worker; a scenario asks for the same ones each time.
        if index < len(self._clients) and self._clients[index][0] == wanted:
            return self._clients[index][1]
        with serving.undisturbed():
            client = lab_client(self._perform_redis, retries, **options)
        self._clients[index:] = [(wanted, client)]
        return client

    @staticmethod
    def check_client(retries: object, options: Mapping[str, Any]) -> None:
        """`ScenarioError` when `redis` is told what it does not take."""
        unknown = sorted(set(options) - _CLIENT_OPTIONS)
        if unknown:
            known = ", ".join(sorted(_CLIENT_OPTIONS))
            raise ScenarioError(f"lab.redis does not take {', '.join(unknown)}; it takes retries, {known}")
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise ScenarioError(f"retries is a number, 0 or more, not {retries!r}")

    def sql(self) -> SqlConnection:
        """A DB-API connection to the lab's SQLite database; give each worker its own.

        Statements, commits and rollbacks are steps. There is one writer at a time: `serialisable, SQLite`.
        """
        index = self._next_sql
        self._next_sql += 1
        if index == len(self._databases):
            self._databases.append(SqlConnection(lambda statement: self.perform(Operation("sql", statement))))
        return self._databases[index]

    def service(self, name: str, deduplicates: bool = False) -> Service:
        """An outside service, such as payments.

        Parameters
        ----------
        name: its name.
        deduplicates: whether it ignores a call whose idempotency key it has seen.
        """
        if name not in self._services:
            if not isinstance(name, str) or not is_worker_name(name) or name in ("redis", "sql", "clock"):
                raise ScenarioError(f"{name!r} cannot name a service; use letters and digits")
            if current_process() is not None and name not in READY_MADE:
                raise ScenarioError(f"service {name!r} appears inside a worker; make it in the scenario")
            self.world.add_service(name, deduplicates)
            self._services[name] = self._make_service(name, deduplicates)
        found = self._services[name]
        if found.deduplicates != deduplicates:
            raise ScenarioError(f"service {name!r} was made before with deduplicates={found.deduplicates}")
        return found

    def _make_service(self, name: str, deduplicates: bool) -> Service:
        return Service(self, name, deduplicates)

    @property
    def mail(self) -> Service:
        """A mail service: `send(key)`."""
        return self.service("mail")

    @property
    def events(self) -> Service:
        """An event bus: `publish(key)`."""
        return self.service("events")

    def worker(
        self,
        name: str,
        function: Callable[..., object],
        *arguments: Any,
        spared: bool = False,
        forever: bool = False,
        signals: int = 0,
        skew: float = 0,
        jump: float = 0,
    ) -> None:
        """Add a worker: one simulated process that runs a function.

        Parameters
        ----------
        name: its name in schedules: letters, digits, `_`, `.` and `-`.
        function: ordinary synchronous code. It shares nothing with other workers but stores and services.
        arguments: what the function is called with.
        spared: whether faults never hit this worker (a reaper, an operator's retry). It is not paused either: while it
            can step, no time passes.
        forever: whether it need not finish (a poller, a relay).
        signals: 1 when SIGTERM may reach it, once, at any moment; its handler is what it gave `signal.signal`.
        skew: how many seconds its wall clock (`time.time`, `datetime.now`) is ahead of the server's; negative: behind.
        jump: by how many seconds its wall clock may jump, once, at any moment that `explore(jumps=1)` chooses.

        Raises `ScenarioError` for a bad name, or for a changeable object that another worker has too.
        """
        self._refuse_inside_a_worker("lab.worker")
        if not isinstance(name, str) or not is_worker_name(name):
            raise ScenarioError(f"{name!r} cannot name a worker; use letters and digits, and not 'clock' or 'failover'")
        if name in self.workers:
            raise ScenarioError(f"there are two workers called {name!r}")
        if not callable(function):
            raise ScenarioError(f"worker {name} needs a function, not {type(function).__name__}: did you call it?")
        if signals not in (0, 1):
            raise ScenarioError(f"worker {name}: signals is 0 or 1, not {signals!r}")
        for option, seconds in (("skew", skew), ("jump", jump)):
            if not isinstance(seconds, (int, float)) or not abs(seconds) <= LONGEST_SHIFT:
                raise ScenarioError(
                    f"worker {name}: {option} is a number of seconds, at most {LONGEST_SHIFT:,}, not {seconds!r}"
                )
        self._ownership.claim(name, (function, *arguments))
        shifts = round(skew * MICROSECONDS), round(jump * MICROSECONDS)
        self.workers[name] = WorkerPlan(name, function, arguments, spared, forever, signals, *shifts)

    def replica(self, behind: int = 1) -> None:
        """Say how many of the last writes the replica lacks that takes over in a failover; one, if nothing is said.

        Parameters
        ----------
        behind: how many writes to Redis; more than there are means that it comes up with what the set-up left.
        """
        self._refuse_inside_a_worker("lab.replica")
        if not isinstance(behind, int) or isinstance(behind, bool) or behind < 1:
            raise ScenarioError(f"behind is a number of writes, 1 or more, not {behind!r}")
        self.replica_lag = behind

    def always(self, name: str, check: Callable[..., object], remember: Callable[[], Any] | None = None) -> None:
        """State what must hold after every step.

        Parameters
        ----------
        name: what must hold, in plain words.
        check: returns whether it does; reads stores through clients made in the scenario.
        remember: an observer. With it, `check(before, now)` is given its value before and after each step,
            for properties such as "a completed job stays completed".
        """
        self._add(Property(name, check, "always", remember))

    def at_end(self, name: str, check: Callable[[], object]) -> None:
        """State what must hold when every worker has finished, died, or waits for something that never comes."""
        self._add(Property(name, check, "at_end"))

    def deadlines(self, observer: DeadlineObserver) -> None:
        """Tell the clock about deadlines that live in data, such as the time at which a message becomes visible.

        Parameters
        ----------
        observer: returns times in seconds, as `time.time()` gives them; the clock stops at each that is to come.
            A dict that has them by name, such as that of the message, lets pictures show each until then.
        """
        self._refuse_inside_a_worker("lab.deadlines")
        if not callable(observer):
            raise ScenarioError(f"lab.deadlines needs a function to call, not {observer!r}")
        self.deadline_observers.append(observer)

    def _add(self, prop: Property) -> None:
        self._refuse_inside_a_worker("a property")
        if not isinstance(prop.name, str) or not prop.name.strip():
            raise ScenarioError(f"a property's name says what must hold, in plain words; {prop.name!r} does not")
        if any(prop.name == other.name for other in self.properties):
            raise ScenarioError(f"there are two properties called {prop.name!r}")
        if not callable(prop.check):
            raise ScenarioError(f"property {prop.name!r} needs a function to call, not {prop.check!r}: write `lambda:`")
        self.properties.append(prop)

    @staticmethod
    def _refuse_inside_a_worker(what: str) -> None:
        process = current_process()
        if process is not None:
            raise ScenarioError(f"{what} stands inside worker {process.name}; it belongs into the scenario itself")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Mark a critical section in a worker's code; it is no step itself."""
        process = current_process()
        if process is None:
            raise ScenarioError(f"section {name!r} stands outside of any worker")
        process.sections.append(name)
        try:
            yield
        finally:
            process.sections.remove(name)

    def inside(self, section: str) -> int:
        """How many living workers are inside a critical section; for properties."""
        process = current_process()
        if process is not None:
            raise ScenarioError(f"lab.inside stands inside worker {process.name}; only properties can see who is where")
        return self.world.inside(section)

    def perform(self, operation: Operation) -> Any:
        """Take a step in a worker, or answer at once outside of any."""
        process = current_process()
        return self.world.outside_request(operation) if process is None else process.perform(operation)

    def _perform_redis(self, request: Request) -> Any:
        return self.perform(Operation("redis", request))


class Service:
    """A handle on an outside service; see `Lab.service`.

    Parameters
    ----------
    lab: the lab that it belongs to.
    name: its name.
    deduplicates: whether it ignores a call whose idempotency key it has seen.
    """

    _shareable = True

    def __init__(self, lab: Lab, name: str, deduplicates: bool) -> None:
        self._lab = lab
        self.name = name
        self.deduplicates = deduplicates

    def call(self, key: str, idempotency_key: str | None = None, **fields: object) -> str:
        """Ask the service for an effect; one step.

        Parameters
        ----------
        key: what it is about, such as an order id.
        idempotency_key: equal for attempts that mean the same effect.
        fields: anything else to send along.

        Returns `done`, or `already done` when the service recognised the idempotency key.
        Raises `TimeoutError` when the reply is lost; the effect may have happened all the same.
        """
        sent = tuple(sorted((name, str(value)) for name, value in fields.items()))
        call = Call(str(key), None if idempotency_key is None else str(idempotency_key), sent)
        answer = self._lab.perform(Operation(self.name, call))
        if isinstance(answer, Lost):
            raise TimeoutError(f"no reply from {self.name}: whether it took effect is unknown")
        return str(answer)

    send = publish = call

    @property
    def calls(self) -> tuple[Call, ...]:
        """The effects, in order; for properties and tests, not for workers."""
        if current_process() is not None:
            raise ScenarioError(f"a worker cannot see what service {self.name!r} did; properties can")
        return self._lab.world.effects(self.name)

    def count(self, key: str | None = None) -> int:
        """How many effects there were, or how many about one key."""
        return sum(key is None or call.key == str(key) for call in self.calls)
