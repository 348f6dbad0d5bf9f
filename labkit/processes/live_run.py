"""`live`: a scenario for real, by operating-system processes on real servers, leaving a trace like any other."""

from __future__ import annotations

import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import redis

from labkit import errors
from labkit.errors import LabError, ScenarioError
from labkit.lab import Scenario
from labkit.processes.effects import Effects
from labkit.processes.faults import START, LiveFault, faults_of
from labkit.processes.journal import notes_of
from labkit.processes.live_lab import LiveLab, LiveWorld
from labkit.processes.live_trace import LiveTrace
from labkit.processes.merging import Mark, Story, merged, story_of
from labkit.processes.observing import Observer
from labkit.processes.part import Part
from labkit.processes.real_sql import real_database
from labkit.processes.running import Crew, started_later, steps_that_end
from labkit.processes.server import redis_server
from labkit.stores.prefixing import Prefix

TICK = 0.02  # seconds between two looks at what is due
SETTLE = 2.0  # seconds that `forever` workers have when all others have ended


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
    until: ends the run as soon as it holds, for workers that are all `forever`; if None, the properties of the end do.
    gather: called when the workers are gone and the stores are still there; its answer is the trace's `gathered`.

    Raises `LabError` when a server is missing, and what the scenario itself raises.
    """
    with ExitStack() as stack:
        url = redis_url or stack.enter_context(redis_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labkit-live-")))
        run = stack.enter_context(_begun(scenario, url, database_url, folder))
        wanted = faults_of(faults, crashes, seed, run.lab.workers, _unhurt(run.lab))
        trace = run.go(wanted, seconds, until)
        return trace if gather is None else replace(trace, gathered=gather())


@dataclass
class Run:
    """One live run.

    Parameters
    ----------
    scenario: builds the world.
    lab: the scenario as it was built in this process.
    part: this process's.
    observer: looks at the stores.
    folder: where journals are.
    """

    scenario: Scenario
    lab: LiveLab
    part: Part
    observer: Observer
    folder: Path

    def go(self, faults: list[LiveFault], seconds: float, until: Callable[[], object] | None) -> LiveTrace:
        """Let the workers run, and gather what they leave behind."""
        crew = Crew(self.scenario, self.part, self.journal_of, self._close_databases)
        try:
            later = started_later(faults)
            for name in self.lab.workers:
                if name not in later:
                    crew.start(name, steps_that_end(faults, name))
            start = crew.let_go(len(crew.processes))
            over = self._watch(crew, faults, start, seconds, until)
            waiting = tuple(crew.alive())
            if over:
                crew.stop()
        finally:
            crew.close()
        return self._trace(crew, start, over, waiting)

    def _close_databases(self) -> None:
        """Have no connection open that a fork must not take along; each is opened again when it is needed."""
        self.observer.effects.close()
        for session in self.part.database.sessions:
            session.close()

    def journal_of(self, worker: str) -> Path:
        """Where a worker's journal is."""
        return self.folder / f"{worker}.journal"

    def _watch(
        self, crew: Crew, faults: list[LiveFault], start: int, seconds: float, until: Callable[[], object] | None
    ) -> bool:
        """Be there until the run is over; returns whether it came to an end, or time was up."""
        finite = [name for name, plan in self.lab.workers.items() if not plan.forever]
        pending = [fault for fault in faults if fault.step is None]
        quiet_since: float | None = None
        while (elapsed := (time.time_ns() - start) / 1e9) < seconds:
            self.observer.look()
            for fault in [fault for fault in pending if fault.is_due(elapsed)]:
                pending.remove(fault)
                if fault.kind == START:
                    crew.start(fault.worker, steps_that_end(faults, fault.worker))
                else:
                    crew.hit(fault)
            unborn = {fault.worker for fault in pending if fault.kind == START}
            living = set(crew.alive())
            if until is not None and until():
                return True
            if not living.intersection(finite) and not unborn.intersection(finite):
                quiet_since = elapsed if quiet_since is None else quiet_since
                patience = SETTLE if finite else seconds
                if not living or (until is None and self.observer.end_holds()) or elapsed - quiet_since > patience:
                    return True
            crew.wait(TICK)
        return False

    def _trace(self, crew: Crew, start: int, over: bool, waiting: tuple[str, ...]) -> LiveTrace:
        marks = list(crew.marks)
        stories: dict[str, Story] = {}
        for name, ended in crew.exits.items():
            stopped = name in waiting
            killed = ended.code < 0 and not stopped
            lines = self.journal_of(name).read_text(encoding="utf-8").splitlines()
            story = stories[name] = story_of(name, notes_of(lines), ended.at, killed)
            if story.complaint is not None:
                raise _as_raised(*story.complaint)
            marks += _marks_of_the_end(name, story, ended.code, ended.at, marks) if not stopped else []
        events = merged(stories, _settled(marks, stories), start)
        stays = [stay for story in stories.values() for stay in story.stays]
        violations, how = self.observer.verdicts(events, stays, start, over)
        attempts = self.observer.effects.attempts()
        return LiveTrace(
            tuple(self.lab.workers),
            events,
            violations,
            over,
            waiting,
            len(self.lab.properties),
            servers=self._servers(),
            attempts=attempts,
            effects={service: len(self.observer.effects_of(service)) for service in attempts},
            exits={name: _exit(name, crew, stories, waiting) for name in self.lab.workers},
            looked_at=how,
            looks=self.observer.looks,
            notes=_not_done(self.lab),
            seconds=(time.time_ns() - start) / 1e9,
        )

    def _servers(self) -> str:
        info = redis.Redis.from_url(self.part.redis_url).info("server")
        return f"redis-server {info['redis_version']} and {self.part.database.version}"


@contextmanager
def _begun(scenario: Scenario, url: str, database_url: str | None, folder: Path) -> Iterator[Run]:
    """Build a scenario on real servers, and remove from them, at the end, whatever it and its workers made there."""
    name = uuid.uuid4().hex[:12]
    client = redis.Redis.from_url(url)
    try:
        prefix = Prefix(client, f"labkit:{name}:".encode(), loads=False)
    except (redis.RedisError, ValueError, OSError) as error:
        raise LabError(f"there is no Redis server to run on: {error}") from error
    database = real_database(database_url, folder, name)
    effects = Effects(folder / "services.sqlite")
    try:
        part = Part(url, prefix, database, effects.call)
        observer = Observer(part, effects)
        lab = LiveLab(LiveWorld(part, observer.effects_of, observer.inside))
        scenario(lab)
        if not lab.workers:
            raise ScenarioError("the scenario has no worker: add some with lab.worker")
        part.mode = "observing"
        observer.properties = lab.properties
        observer.look(force=True)
        yield Run(scenario, lab, part, observer, folder)
    finally:
        _leave_nothing(prefix, client)
        for session in database.sessions:
            session.close()
        database.remove()
        effects.close()
        client.close()


def _leave_nothing(prefix: Prefix, client: redis.Redis) -> None:
    """Remove every key of the run."""
    try:
        for key in list(prefix.made()):
            client.unlink(key)
    except redis.RedisError as error:
        warnings.warn(f"the keys {prefix.text.decode()}* were not removed from Redis: {error}", stacklevel=2)


def _unhurt(lab: LiveLab) -> set[str]:
    return {name for name, plan in lab.workers.items() if plan.spared}


def _marks_of_the_end(name: str, story: Story, code: int, at: int, marks: list[Mark]) -> list[Mark]:
    """The marks of signals that nobody here sent: a worker's own, or somebody else's."""
    if code >= 0 and story.signalled is None:
        return []
    kind = {-9: "crash", -15: "signal"}.get(code, "signal" if story.signalled is not None else "")
    sent = [mark for mark in marks if mark.worker == name and mark.kind == kind]
    if not kind or sent:
        return []
    return [Mark(story.signalled.at if story.signalled is not None else at, name, kind, deadly=False)]


def _settled(marks: list[Mark], stories: Mapping[str, Story]) -> list[Mark]:
    """The marks, none before what its worker had done by then, and SIGTERM deadly where nothing came after it."""
    settled = []
    for mark in marks:
        steps = stories[mark.worker].steps
        last = steps[-1].at if steps else 0
        if mark.kind == "crash":
            mark = mark._replace(at=max(mark.at, last + 1))
        elif not stories[mark.worker].ended:
            later = any(step.at > mark.at for step in steps)
            mark = mark._replace(deadly=not later)
        settled.append(mark)
    return settled


def _exit(name: str, crew: Crew, stories: Mapping[str, Story], waiting: tuple[str, ...]) -> str:
    """How a worker came to its end, in words."""
    if name in waiting:
        return "was stopped by the lab when the run was over"
    if name not in crew.exits:
        return "never started"
    endings = [step.event.ending for step in stories[name].steps if step.event.ending is not None]
    if endings:
        return str(endings[-1])
    code = crew.exits[name].code
    return {-9: "was killed by SIGKILL", -15: "was killed by SIGTERM", 0: "returned"}.get(code, f"ended with {code}")


def _as_raised(kind: str, message: str) -> LabError:
    raised: type[LabError] = getattr(errors, kind, ScenarioError)
    return raised(message)


def _not_done(lab: LiveLab) -> tuple[str, ...]:
    shifted = [name for name, plan in lab.workers.items() if plan.skew or plan.jump]
    return (f"not done: clocks of {', '.join(shifted)} are as the machine's",) if shifted else ()
