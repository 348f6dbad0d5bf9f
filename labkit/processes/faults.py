"""What goes wrong in a live run, and when: real signals to real processes."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import ScenarioError

KINDS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}
START = "start"
USUAL_STEPS = 4  # after so many steps, on average, random kills come


@dataclass(frozen=True)
class LiveFault:
    """One thing that is done to a worker.

    Parameters
    ----------
    kind: `kill` (SIGKILL), `term` (SIGTERM) or `start` (the worker starts only then).
    worker: its name.
    seconds: after how many seconds since the start; None when one of the others says.
    step: after how many of the worker's own steps.
    condition: as soon as this holds; it may look at stores like a property.
    """

    kind: str
    worker: str
    seconds: float | None = None
    step: int | None = None
    condition: Callable[[], object] | None = None

    def is_due(self, elapsed: float) -> bool:
        """Whether the time has come, by the clock or by the condition; a step is counted by the worker itself."""
        if self.condition is not None:
            return bool(self.condition())
        return self.seconds is not None and elapsed >= self.seconds


def faults_of(
    wanted: Iterable[Sequence[Any]], crashes: int, seed: int, workers: Collection[str], unhurt: Collection[str]
) -> list[LiveFault]:
    """Read the faults of a live run.

    Parameters
    ----------
    wanted: tuples of kind, worker, and when: seconds, `"step 3"`, or a function that says whether it is time.
    crashes: how many workers are killed besides, each after one of its first steps.
    seed: which ones, and when.
    workers: the names of all workers.
    unhurt: those that are spared, or run elsewhere.

    Raises `ScenarioError` for what is none.
    """
    faults = [_fault(each, workers, unhurt) for each in wanted]
    started = [fault.worker for fault in faults if fault.kind == START]
    if twice := sorted({name for name in started if started.count(name) > 1}):
        raise ScenarioError(f"fault start: {' and '.join(twice)} can start only once")
    chance = random.Random(f"{seed}:live")
    mortal = sorted(set(workers) - set(unhurt) - {fault.worker for fault in faults if fault.kind == "kill"})
    if not isinstance(crashes, int) or crashes < 0 or crashes > len(mortal):
        raise ScenarioError(f"crashes is {crashes!r}; it must be a number from 0 to {len(mortal)}, the workers left")
    doomed = chance.sample(mortal, crashes)
    return faults + [LiveFault("kill", name, step=1 + int(chance.expovariate(1 / USUAL_STEPS))) for name in doomed]


def _fault(wanted: Sequence[Any], workers: Collection[str], unhurt: Collection[str]) -> LiveFault:
    try:
        kind, worker, when = wanted
    except (TypeError, ValueError):
        raise ScenarioError(f'{wanted!r} is no fault; write for example ("kill", "A", 0.5)') from None
    if kind not in (*KINDS, START):
        raise ScenarioError(f"{kind!r} is no fault; there are {', '.join([*KINDS, START])}")
    if worker not in workers:
        raise ScenarioError(f"fault {kind}: there is no worker {worker}; there are {', '.join(workers)}")
    if kind != START and worker in unhurt:
        raise ScenarioError(f"fault {kind}: {worker} is spared or runs elsewhere, so no fault hits it")
    if callable(when):
        return LiveFault(kind, worker, condition=when)
    if isinstance(when, (int, float)) and not isinstance(when, bool) and when >= 0:
        return LiveFault(kind, worker, seconds=when)
    number = str(when).removeprefix("step ")
    if isinstance(when, str) and when.startswith("step ") and number.isdecimal() and int(number) and kind != START:
        return LiveFault(kind, worker, step=int(number))
    raise ScenarioError(f'fault {kind} of {worker}: {when!r} is no time; give seconds, "step 3", or a function')
