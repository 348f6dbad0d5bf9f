"""Incident A's staging test for real, and what its green tick is worth: the explorer's word, and chance's."""

from __future__ import annotations

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from labkit import Lab, LiveTrace, Sample, Trace, Verdict, explore, live, sample
from labkit.errors import ScenarioError
from labkit.incidents.staging_report import RunFigures, StagingReport
from labkit.incidents.staging_world import BUS, PROGRAMS, QUEUE, Staging
from labkit.queues import VisibilityQueue

GRACE = 5.0  # seconds from SIGTERM to SIGKILL in a deploy
LONGEST_SAMPLE = 500  # executions
SEARCHES: dict[str, tuple[dict[str, Any], bool]] = {  # the budgets, and whether somebody finds what is left
    "at once": ({}, False),
    "a crash": ({"crashes": 1}, True),
    "a pause": ({"pauses": 1}, False),
}
_WRITTEN = re.compile(r"UPDATE jobs SET status = '([a-z-]+)' WHERE id = '(job-\d+)'")


def staging(
    program: str = "corrected",
    *,
    lock: bool = True,
    jobs: int = 100,
    workers: int = 10,
    runs: int = 1,
    kills: int = 0,
    deploy: bool = False,
    visibility: float = 2,
    seconds: float = 60,
    redis_url: str | None = None,
    database_url: str | None = None,
    seed: int = 0,
) -> StagingReport:
    """Validate a program as the article does, with real processes on real servers; and search a small copy of it.

    Parameters
    ----------
    program: `naive`, `naive lock`, `article` or `corrected`; see `labkit.incidents.staging_world`.
    lock: whether its lock is there; without it one sees whether the error handling holds.
    jobs, workers: how many jobs, each of which is asked for twice, and how many worker processes.
    runs: how often it is done.
    kills: how many workers are killed by SIGKILL in each run, at random.
    deploy: whether, midway, new workers start and the old ones get SIGTERM; SIGKILL after 5 seconds.
    visibility: for how many seconds a received message is hidden, and a lock lasts.
    seconds: how long a run may take.
    redis_url, database_url: as for `live`.
    seed: which workers are killed, and when.
    """
    if program not in PROGRAMS:
        raise ScenarioError(f"there is no program {program!r}; there are {', '.join(PROGRAMS)}")
    if not 0 <= kills <= workers:
        raise ScenarioError(f"kills is {kills}; it must be a number from 0 to {workers}, the workers")
    if runs < 1 or jobs < 1 or workers < 1:
        raise ScenarioError("runs, jobs and workers are numbers, 1 or more")
    world = Staging(program, lock, jobs, workers, visibility=visibility, deploy=deploy)
    figures = []
    for number in range(runs):
        watched = Watched(world)
        trace = live(
            watched,
            redis_url,
            database_url,
            seconds=seconds,
            faults=watched.faults(kills, random.Random(f"{seed}:{number}:staging")),
            until=watched.is_idle,
            gather=watched.statuses,
        )
        figures.append(figures_of(trace, watched))
    verdicts, drawn = searched(world)
    return StagingReport(world, kills, tuple(figures), verdicts, drawn, trace)


def searched(world: Staging) -> tuple[dict[str, Verdict], Sample]:
    """What the explorer says of one job and two workers, and how often random schedules show a fault."""
    small = Staging(world.program, world.lock, jobs=1, workers=2, job_seconds=0, small=True)
    verdicts = {
        name: explore(replace(small, recovery=recovery), **budgets) for name, (budgets, recovery) in SEARCHES.items()
    }
    return verdicts, sample(small, LONGEST_SAMPLE)


class Watched:
    """A staging world, and somebody who looks at it from outside; a scenario.

    Parameters
    ----------
    world: what is looked at.
    """

    def __init__(self, world: Staging) -> None:
        self.world = world
        self._known: tuple[float, int] = (0.0, 0)
        self._deployed: float | None = None

    def __call__(self, lab: Lab) -> None:
        """Build the world, with connections for this process to look through."""
        self.world(lab)
        self.lab, self.r, self.db = lab, lab.redis(), lab.sql()

    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return self.world.is_idle(self.r, self.db)

    def statuses(self) -> dict[str, Any]:
        """What is left in the stores."""
        rows = self.db.execute("SELECT id, status FROM jobs").fetchall()
        attributes = VisibilityQueue(self.r, QUEUE).attributes()
        return {"statuses": dict(rows), "redelivered": attributes.redelivered}

    def faults(self, kills: int, chance: random.Random) -> list[tuple[str, str, object]]:
        """Kills at random while the first half of the jobs is done, and then the deploy."""
        jobs = self.world.jobs
        faults: list[tuple[str, str, object]] = [
            ("kill", name, self._done(chance.randint(1, max(1, jobs // 2 - 1))))
            for name in chance.sample(self.world.generation("old"), kills)
        ]
        killed = {name for _, name, _ in faults}
        if self.world.deploy:
            faults += [("start", name, self._done(jobs // 2)) for name in self.world.generation("new")]
            left = [name for name in self.world.generation("old") if name not in killed]
            faults += [("term", name, self._done(jobs // 2)) for name in left]
            faults += [("kill", name, self._grace_is_over) for name in left]
        return faults

    def _done(self, count: int) -> Callable[[], bool]:
        """Whether so many jobs are completed."""
        return lambda: self._completed() >= count

    def _grace_is_over(self) -> bool:
        if self._deployed is None and self._completed() >= self.world.jobs // 2:
            self._deployed = time.monotonic()
        return self._deployed is not None and time.monotonic() > self._deployed + GRACE

    def _completed(self) -> int:
        """How many jobs are completed; asked once for all faults that wait for it."""
        at, count = self._known
        if time.monotonic() > at + 0.01:
            count = self.world.completed(self.db)
            self._known = time.monotonic(), count
        return count


def figures_of(trace: LiveTrace, watched: Watched) -> RunFigures:
    """The figures of one run."""
    left: Any = trace.gathered
    told = Counter(event.writes[0] for event in trace.events if event.store == BUS and event.writes)
    names = watched.world.names
    writers = writers_of(trace)
    events = {name: told[f"{BUS}:{name}"] for name in names}
    return RunFigures(
        pending=sum(left["statuses"].get(name) != "completed" for name in names),
        lost=sum(count == 0 for count in events.values()),
        twice=sum(count > 1 for count in events.values()),
        extra=sum(count - 1 for count in events.values() if count > 1),
        recognised=trace.attempts.get(BUS, 0) - trace.effects.get(BUS, 0),
        answers_500=sum("status=500" in event.text for event in trace.events if event.store == "http"),
        most_writers=max((len(workers) for workers in writers.values()), default=0),
        several_writers=sum(len(workers) > 1 for workers in writers.values()),
        lock_timeouts=sum(is_lock_timeout(event.text, event.reply) for event in trace.events),
        redelivered=left["redelivered"],
        killed=sum(event.kind == "crash" for event in trace.events),
        drained=sum(event.kind == "signal" and event.ending is None for event in trace.events),
        over=trace.over,
        seconds=trace.seconds,
    )


def committed(trace: Trace) -> Iterator[tuple[str, str, str]]:
    """Each status that was written and committed, in order: the worker, the job, and its status."""
    begun: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for event in trace.events:
        if event.store != "sql":
            continue
        worker, written = event.choice.worker or "", _WRITTEN.match(event.text)
        if written and event.reply == "1 row":
            begun[worker].append((worker, written[2], written[1]))
        elif event.text == "COMMIT":
            yield from begun.pop(worker, [])
        elif event.text == "ROLLBACK":
            begun.pop(worker, None)


def writers_of(trace: Trace) -> dict[str, list[str]]:
    """For each job, who wrote `completed` and committed it, once for each time."""
    writers: dict[str, list[str]] = defaultdict(list)
    for worker, job, status in committed(trace):
        if status == "completed":
            writers[job].append(worker)
    return writers


def is_lock_timeout(text: str, reply: str) -> bool:
    """Whether somebody found a job's lock taken."""
    if text.startswith("SET lock:"):
        return reply == "nil"
    return text.startswith("GET lock:") and reply != "nil"
