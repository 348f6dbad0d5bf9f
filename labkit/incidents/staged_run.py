"""One staging run, job by job: by real processes where there is a redis-server, else a small one inside the lab."""

from __future__ import annotations

import html
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit import Sample, Trace, live, run
from labkit.incidents.staging_run import Watched, committed, is_lock_timeout, writers_of
from labkit.incidents.staging_world import API, BUS, TWICE, Staging
from labkit.processes.server import find_redis_server

MOST_SIMULATED, MOST_SIMULATED_WORKERS = 10, 4  # each step costs what looking at every job costs
INSTEAD = (
    "There is no redis-server on this machine, so {jobs} jobs and {workers} workers ran inside the lab instead, each "
    "step drawn at random, and nobody was killed. For the real thing install it (apt install redis-server, "
    "brew install redis), or open the course on Binder, which has one."
)
_STATUS = re.compile(r"status=(\d+)")
_JOB = re.compile(r"job-\d+")


@dataclass(frozen=True, repr=False)
class StagedRun:
    """What one staging run left behind. One run: observed, not searched.

    Parameters
    ----------
    world: what ran.
    is_real: whether real processes ran it on a real redis-server.
    over: whether all was done when the run ended.
    statuses: the status of each job at the end.
    answers: what the API answered about each job, as HTTP status codes.
    events: how often the event of each job went out; 0 when it never did.
    writers: for each job, who wrote its status `completed` and committed it, once for each time.
    lock_timeouts: for each job, how often a worker found its lock taken.
    killed: the workers that were killed.
    trace: the whole execution, with all its views.
    """

    world: Staging
    is_real: bool
    over: bool
    statuses: Mapping[str, str]
    answers: Mapping[str, tuple[int, ...]]
    events: Mapping[str, int]
    writers: Mapping[str, tuple[str, ...]]
    lock_timeouts: Mapping[str, int]
    killed: tuple[str, ...] = ()
    trace: Trace | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """Where it ran, in a sentence."""
        if self.is_real:
            return f"{self.world.workers} worker processes and {self.world.jobs} jobs, on a real redis-server."
        return INSTEAD.format(jobs=self.world.jobs, workers=self.world.workers)

    def sample(self) -> Sample:
        """Its jobs as a sample: how many of them had their event go out twice, with an interval."""
        twice = sum(count > 1 for count in self.events.values())
        return Sample(self.world.jobs, {TWICE: twice} if twice else {}, {}, "jobs of a staging run")

    def figures(self) -> dict[str, int]:
        """What happened, counted."""
        return {
            "jobs left pending": sum(status != "completed" for status in self.statuses.values()),
            "answers 500": sum(codes.count(500) for codes in self.answers.values()),
            "events lost": sum(count == 0 for count in self.events.values()),
            "jobs with an event twice": sum(count > 1 for count in self.events.values()),
            "jobs whose status was written twice": sum(len(who) > 1 for who in self.writers.values()),
            "lock time-outs": sum(self.lock_timeouts.values()),
            "workers killed": len(self.killed),
        }

    def __repr__(self) -> str:
        rows = [f"{count:>6}  {name}" for name, count in self.figures().items()]
        unfinished = [] if self.over else ["Time was up before all was done."]
        return "\n".join([self.place, *unfinished, *rows])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def staged(
    program: str = "corrected",
    *,
    lock: bool = True,
    jobs: int = 100,
    workers: int = 10,
    kills: int = 0,
    redis_url: str | None = None,
    seconds: float = 60,
    seed: int = 0,
) -> StagedRun:
    """Run the staging test once, for real if this machine can.

    Parameters
    ----------
    program, lock, jobs, workers, kills, seconds, seed: as for `staging`.
    redis_url: a server; if None, one is started for the length of the run. Where there is none to start, a small run
        takes place inside the lab, without kills, and says so.
    """
    if redis_url is None and find_redis_server() is None:
        small = Staging(program, lock, min(jobs, MOST_SIMULATED), min(workers, MOST_SIMULATED_WORKERS))
        return run_of(run(small, seed=seed), small, is_real=False)
    world = Staging(program, lock, jobs, workers)
    watched = Watched(world)
    trace = live(
        watched,
        redis_url,
        seconds=seconds,
        faults=watched.faults(kills, random.Random(f"{seed}:staged")),
        until=watched.is_idle,
        gather=watched.statuses,
    )
    left: Any = trace.gathered
    return run_of(trace, world, is_real=True, statuses=left["statuses"])


def run_of(trace: Trace, world: Staging, *, is_real: bool, statuses: Mapping[str, str] | None = None) -> StagedRun:
    """What a trace says of each job.

    Parameters
    ----------
    trace: the execution.
    world: what ran.
    is_real: whether real processes did it.
    statuses: the status of each job at the end; None: the last that was written and committed.
    """
    writers = writers_of(trace)
    left = statuses if statuses is not None else {job: status for _, job, status in committed(trace)}
    told = Counter(event.writes[0] for event in trace.events if event.store == BUS and event.writes)
    answers: dict[str, list[int]] = defaultdict(list)
    taken: Counter[str] = Counter()
    for event in trace.events:
        if event.store == API and (code := _STATUS.search(event.text)):
            answers[_JOB.findall(event.text)[0]].append(int(code[1]))
        if is_lock_timeout(event.text, event.reply):
            taken[_JOB.findall(event.text)[0]] += 1
    return StagedRun(
        world=world,
        is_real=is_real,
        over=trace.over,
        statuses={name: left.get(name, "pending") for name in world.names},
        answers={name: tuple(answers[name]) for name in world.names},
        events={name: told[f"{BUS}:{name}"] for name in world.names},
        writers={name: tuple(writers.get(name, ())) for name in world.names},
        lock_timeouts={name: taken[name] for name in world.names},
        killed=tuple(str(event.worker) for event in trace.events if event.kind == "crash"),
        trace=trace,
    )
