"""One live run, from the moment at which its workers begin to the trace that they leave."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from labkit.lab import Scenario
from labkit.processes.endings import (
    as_raised,
    exit_in_words,
    marks_of_strangers,
    not_done,
    raised_at_once,
    settled,
    without_the_late,
)
from labkit.processes.faults import START, LiveFault
from labkit.processes.guests import Guests
from labkit.processes.journal import notes_of
from labkit.processes.live_lab import LiveLab
from labkit.processes.live_trace import LiveTrace
from labkit.processes.merging import Story, merged, story_of
from labkit.processes.observing import Observer
from labkit.processes.part import Part
from labkit.processes.running import Crew, Exit, started_later, steps_that_end

TICK = 0.02  # seconds between two looks at what is due
SETTLE = 2.0  # seconds that `forever` workers have when all others have ended


@dataclass
class Run:
    """One live run.

    Parameters
    ----------
    scenario: builds the world.
    lab: the scenario as it was built in this process.
    part: this process's.
    observer: looks at the stores.
    guests: the workers that join it from elsewhere.
    folder: where journals are.
    """

    scenario: Scenario
    lab: LiveLab
    part: Part
    observer: Observer
    guests: Guests
    folder: Path
    pending: list[LiveFault] = field(default_factory=list)  # the faults that are to come
    began: float = 0.0  # on the monotonic clock: the wall clock, which events have their times from, may be set

    def go(self, faults: list[LiveFault], seconds: float, until: Callable[[], object] | None) -> LiveTrace:
        """Let the workers run, and gather what they leave behind."""
        crew = Crew(self.scenario, self.part, self.journal_of, self._close_databases)
        here = [name for name in self.lab.workers if name not in self.guests.names]
        try:
            self.guests.welcome(seconds)
            for name in here:
                if name not in started_later(faults):
                    crew.start(name, steps_that_end(faults, name))
            start, self.began = crew.let_go(len(crew.processes)), time.monotonic()
            self.guests.let_go()
            over = self._watch(crew, faults, seconds, until)
            waiting = (*crew.alive(), *self.guests.alive())
            if over:
                crew.stop()
        finally:
            crew.close()
            self.guests.stop()
        return self._trace(crew, faults, start, over, waiting)

    def _close_databases(self) -> None:
        """Have no connection open that a fork must not take along; each is opened again when it is needed."""
        self.observer.effects.close()
        for session in self.part.database.sessions:
            session.close()

    def journal_of(self, worker: str) -> Path:
        """Where a worker's journal is."""
        return self.folder / f"{worker}.journal"

    def _watch(self, crew: Crew, faults: list[LiveFault], seconds: float, until: Callable[[], object] | None) -> bool:
        """Be there until the run is over; returns whether it came to an end, or time was up."""
        finite = [name for name, plan in self.lab.workers.items() if not plan.forever]
        pending = self.pending = [fault for fault in faults if fault.step is None]
        quiet_since: float | None = None
        while (elapsed := time.monotonic() - self.began) < seconds:
            self.observer.look()
            self.guests.serve()
            for fault in [fault for fault in pending if fault.is_due(elapsed)]:
                pending.remove(fault)
                if fault.kind == START:
                    crew.start(fault.worker, steps_that_end(faults, fault.worker))
                else:
                    crew.hit(fault)
            unborn = {fault.worker for fault in pending if fault.kind == START}
            living = {*crew.alive(), *self.guests.alive()}
            if until is not None and until():
                return True
            if not living.intersection(finite) and not unborn.intersection(finite):
                quiet_since = elapsed if quiet_since is None else quiet_since
                patience = SETTLE if finite else seconds
                # Who says when it is over is waited for: what a dead worker held may be hidden for longer than that.
                settled_down = until is None and (self.observer.end_holds() or elapsed - quiet_since > patience)
                if not living or settled_down:
                    return True
            crew.wait(TICK)
        return False

    def _trace(
        self, crew: Crew, faults: list[LiveFault], start: int, over: bool, waiting: tuple[str, ...]
    ) -> LiveTrace:
        marks = without_the_late(crew.marks, crew.exits)
        stories: dict[str, Story] = {}
        exits = {**crew.exits, **{name: Exit(*self.guests.exit_of(name)) for name in self.guests.names}}
        for name, ended in exits.items():
            stopped = name in waiting
            killed = ended.code < 0 and not stopped
            hit = max((mark.at for mark in marks if mark.worker == name), default=0)
            story = stories[name] = story_of(name, self._notes(name), hit if killed else ended.at, killed)
            if story.complaint is not None:
                raise as_raised(*story.complaint)
            marks += story.signals
            if not stopped:
                marks += marks_of_strangers(name, ended, marks)
        terminated = [name for name, ended in exits.items() if ended.code == -signal.SIGTERM and name not in waiting]
        events = merged(stories, settled(marks, stories, terminated), start)
        stays = [stay for story in stories.values() for stay in story.stays]
        violations, how = self.observer.verdicts(events, stays, start, over)
        attempts = self.observer.effects.attempts()
        plans = self.lab.workers
        in_words = {name: exit_in_words(stories.get(name), exits.get(name), name in waiting) for name in plans}
        shifted = [name for name, plan in plans.items() if plan.skew or plan.jump]
        return LiveTrace(
            tuple(self.lab.workers),
            events,
            violations,
            over,
            waiting,
            len(self.lab.properties),
            unseen=tuple(f"{name} {story.ending}" for name, story in stories.items() if raised_at_once(story)),
            servers=self._servers(),
            attempts=attempts,
            effects={service: len(self.observer.effects_of(service)) for service in attempts},
            exits=in_words,
            looked_at=how,
            looks=self.observer.looks,
            notes=not_done(faults, self.pending, in_words, shifted),
            seconds=time.monotonic() - self.began,
        )

    def _notes(self, name: str) -> Iterator[dict[str, Any]]:
        """A worker's notes, wherever it ran."""
        if name in self.guests.names:
            return notes_of(self.guests.journal_of(name))
        return notes_of(self.journal_of(name).read_text(encoding="utf-8").splitlines())

    def _servers(self) -> str:
        info = redis.Redis.from_url(self.part.redis_url).info("server")
        return f"redis-server {info['redis_version']} and {self.part.database.version}"
