"""`live`: a scenario for real, by operating-system processes on real servers, leaving a trace like any other."""

from __future__ import annotations

import re
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from labkit.errors import LabError, ScenarioError
from labkit.lab import Scenario
from labkit.processes.effects import Effects
from labkit.processes.faults import START, faults_of
from labkit.processes.guests import Guests
from labkit.processes.letters import Letters
from labkit.processes.live_lab import LiveLab, LiveWorld
from labkit.processes.live_trace import LiveTrace
from labkit.processes.observing import Observer
from labkit.processes.one_run import Run
from labkit.processes.orderly_end import ended_in_order
from labkit.processes.part import Part
from labkit.processes.real_sql import real_database
from labkit.processes.server import redis_server
from labkit.stores.prefixing import Prefix

LONGEST = 86_400  # seconds


def live(
    scenario: Scenario,
    redis_url: str | None = None,
    database_url: str | None = None,
    *,
    seconds: float = 30,
    faults: Iterable[Sequence[Any]] = (),
    crashes: int = 0,
    seed: int = 0,
    until: Callable[[], object] | None = None,
    gather: Callable[[], object] | None = None,
    elsewhere: Sequence[str] = (),
    run_id: str | None = None,
) -> LiveTrace:
    """Run a scenario for real: each worker is a forked process, signals are signals, and time passes by itself.

    It observes one execution, and says so; it never says `holds`.

    Parameters
    ----------
    scenario: builds the world. It is called here, and once more in each worker's process.
    redis_url: a Redis server; if None, one is started on this machine for the length of the run. On one that is
        somebody else's, the run keeps to keys with a prefix of its own, and removes them at the end.
    database_url: a PostgreSQL, where the run has a schema of its own and drops it at the end; if None, an SQLite file.
    seconds: after how many seconds workers that still run are stopped.
    faults: what goes wrong, such as `("kill", "A", 0.5)`, `("term", "B", "step 3")` or `("start", "C", condition)`: to
        be killed by SIGKILL, to get SIGTERM, or to start only then; to whom; and when: after so many seconds, after
        that many of its own steps, or as soon as a function says so, which may look at stores like a property.
    crashes: how many workers are killed besides, each after one of its first steps.
    seed: which ones, and when.
    until: ends the run as soon as it holds; else only the end of all workers does. If None, a run in which only
        workers that are `forever` are left ends when the properties of the end hold, or after a while.
    gather: called when the workers are gone and the stores are still there; its answer is the trace's `gathered`.
    elsewhere: workers that run on another machine and join with `python -m labkit worker`; they must reach the server.
    run_id: the name by which they find the run, of letters and digits; a new one if None.

    Raises `LabError` when a server is missing or has keys of a run of that name already, `ScenarioError` on what is no
    scenario, fault or time, and what the scenario itself raises.
    """
    _check(scenario, seconds)
    with ExitStack() as stack:
        stack.enter_context(ended_in_order())
        url = redis_url or stack.enter_context(redis_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labkit-live-")))
        run = stack.enter_context(_begun(scenario, url, database_url, folder, tuple(elsewhere), _name(run_id)))
        wanted = faults_of(faults, crashes, seed, run.lab.workers, _unhurt(run.lab) | set(elsewhere))
        if here := sorted({fault.worker for fault in wanted if fault.kind == START}.intersection(elsewhere)):
            raise ScenarioError(f"fault start: {' and '.join(here)} runs elsewhere, and starts when it joins")
        trace = run.go(wanted, seconds, until)
        return trace if gather is None else replace(trace, gathered=gather())


@contextmanager
def _begun(
    scenario: Scenario, url: str, database_url: str | None, folder: Path, elsewhere: Sequence[str], name: str
) -> Iterator[Run]:
    """Build a scenario on real servers, and remove from them, at the end, whatever it and its workers made there."""
    try:
        client = redis.Redis.from_url(url)
        prefix = Prefix(client, f"labkit:{name}:".encode(), loads=False)
    except (redis.RedisError, ValueError, OSError) as error:
        raise LabError(f"there is no Redis server to run on: {error}") from error
    letters = Letters(client, name)
    if found := [key.decode(errors="replace") for key in (*prefix.made(), *letters.all())]:
        raise LabError(
            f"run_id {name} is taken: the server has the key {found[0]}, which this run would remove; choose another "
            "id, or delete the key if a run that was killed has left it"
        )
    database = real_database(database_url, folder, name)
    effects = Effects(folder / "services.sqlite")
    try:
        part = Part(url, prefix, database, effects.call)
        observer = Observer(part, effects)
        lab = LiveLab(LiveWorld(part, observer.effects_of, observer.inside))
        scenario(lab)
        if not lab.workers:
            raise ScenarioError("the scenario has no worker: add some with lab.worker")
        if unknown := sorted(set(elsewhere) - set(lab.workers)):
            raise ScenarioError(f"the scenario has no worker {' and '.join(unknown)} that could run elsewhere")
        part.mode = "observing"
        observer.properties = lab.properties
        observer.look(force=True)
        yield Run(scenario, lab, part, observer, Guests(elsewhere, letters, part, name), folder)
    finally:
        _leave_nothing(prefix, letters, client)
        for session in database.sessions:
            session.close()
        database.remove()
        effects.close()
        client.close()


def _leave_nothing(prefix: Prefix, letters: Letters, client: redis.Redis) -> None:
    """Remove every key of the run."""
    try:
        for key in list(prefix.made()):
            client.unlink(key)
        letters.burn()
    except redis.RedisError as error:
        warnings.warn(f"the keys {prefix.text.decode()}* were not removed from Redis: {error}", stacklevel=2)


def _name(run_id: str | None) -> str:
    """The name of a run."""
    if run_id is not None and not re.fullmatch("[a-z0-9]{1,32}", str(run_id)):
        raise ScenarioError(f"run_id is {run_id!r}; it must be 1 to 32 small letters and digits")
    return run_id or uuid.uuid4().hex[:12]


def _check(scenario: Scenario, seconds: float) -> None:
    if not callable(scenario):
        raise ScenarioError(f"a scenario is a function that takes a Lab, not {type(scenario).__name__}")
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < LONGEST:
        raise ScenarioError(f"seconds is {seconds}; it must be a number from 0 to {LONGEST:,}, a day")


def _unhurt(lab: LiveLab) -> set[str]:
    return {name for name, plan in lab.workers.items() if plan.spared}
