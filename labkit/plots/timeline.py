"""What a trace says of workers and their jobs over time: when they were ready, told to stop and gone, and what was
done twice. Jobs are the sections of the workers' code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from labkit.plots.intervals import intervals
from labkit.trace import Event, Trace
from labkit.words import in_one_line

WINDOW = (60, 180)  # seconds after a deploy in which a visibility timeout of a minute or two brings jobs back


class Job(NamedTuple):
    """A job in a worker's hands.

    Parameters
    ----------
    worker, name: who does it, and what the section is called.
    start, end: seconds since the start of the trace.
    attempt: 1 for the first time that anybody does it.
    ended: `left`, `killed`, or `open` when it lasts longer than the trace.
    """

    worker: str
    name: str
    start: float
    end: float
    attempt: int
    ended: str


class Mark(NamedTuple):
    """Something that happens to a worker, or that it does to the outside world.

    Parameters
    ----------
    worker, seconds: to whom, or who did it, and when.
    kind: `ready` (its first request), `SIGTERM`, `killed by it`, `SIGKILL`, `left` (it returned), `failed` (it raised),
        `effect`, or `again`: an effect that had taken place before.
    text: what is written beside it; empty where nothing is.
    """

    worker: str
    seconds: float
    kind: str
    text: str = ""


@dataclass(frozen=True)
class Timeline:
    """A trace over time.

    Parameters
    ----------
    workers: their names.
    jobs: in the order in which they begin.
    marks: in the order in which they happen.
    ends: when each worker is gone; those that outlive the trace have the time at which it ends.
    seconds: how long it is; waiting in vain after the last thing that happened is left out.
    """

    workers: tuple[str, ...]
    jobs: tuple[Job, ...]
    marks: tuple[Mark, ...]
    ends: dict[str, float]
    seconds: float

    @property
    def repeated(self) -> list[Mark]:
        """The effects that took place once more."""
        return [mark for mark in self.marks if mark.kind == "again"]

    @property
    def redelivered(self) -> list[Job]:
        """The jobs that somebody had begun before."""
        return [job for job in self.jobs if job.attempt > 1]

    @property
    def told_to_stop(self) -> float | None:
        """When the first worker got SIGTERM; None when none did."""
        return min((mark.seconds for mark in self.marks if mark.kind in ("SIGTERM", "killed by it")), default=None)

    @property
    def window(self) -> tuple[float, float] | None:
        """From one minute after the first SIGTERM to three, as far as it is shown; None when it is not."""
        if self.told_to_stop is None or self.told_to_stop + WINDOW[0] >= self.seconds:
            return None
        return self.told_to_stop + WINDOW[0], min(self.told_to_stop + WINDOW[1], self.seconds)


def timeline(trace: Trace) -> Timeline:
    """What a trace says of workers and jobs."""
    jobs = _jobs(trace)
    marks = [_in_hand(mark, jobs) for mark in _marks(trace)]
    last = max([job.end for job in jobs if job.ended != "open"] + [mark.seconds for mark in marks], default=0.0)
    end = _seconds(trace.events[-1]) if trace.events else 0.0
    shown = min(end, last * 1.08 + 1)
    gone = {mark.worker: mark.seconds for mark in marks if mark.kind in ("SIGKILL", "left", "failed", "killed by it")}
    ends = {worker: gone.get(worker, shown) for worker in trace.workers}
    jobs = [job._replace(end=min(job.end, shown)) for job in jobs]
    return Timeline(trace.workers, tuple(jobs), tuple(marks), ends, shown)


def _jobs(trace: Trace) -> list[Job]:
    jobs: list[Job] = []
    for found in intervals(trace):
        if found.kind == "section" and found.worker is not None:
            start, end = (_seconds(trace.events[number - 1]) for number in (found.first, found.last))
            attempt = 1 + sum(job.name == found.name for job in jobs)
            jobs.append(Job(found.worker, found.name, start, end, attempt, found.ended))
    return jobs


def _marks(trace: Trace) -> list[Mark]:
    marks: list[Mark] = []
    ready: set[str] = set()
    done: set[str] = set()
    for event in trace.events:
        worker, seconds = event.choice.process, _seconds(event)
        if worker is None:
            continue
        if event.kind == "command" and worker not in ready:
            ready.add(worker)
            marks.append(Mark(worker, seconds, "ready", "ready, polls"))
        if event.kind == "call" and event.writes:
            again = event.writes[0] in done
            done.add(event.writes[0])
            text = in_one_line(event.writes[0]).replace(":", " ", 1)
            marks.append(Mark(worker, seconds, "again", f"{text} again") if again else Mark(worker, seconds, "effect"))
        marks += _lifecycle(event, worker, seconds)
    return marks


def _in_hand(mark: Mark, jobs: list[Job]) -> Mark:
    """A mark that says what a worker was killed in."""
    if mark.kind not in ("SIGKILL", "killed by it"):
        return mark
    cut = [job.name for job in jobs if (job.worker, job.end, job.ended) == (mark.worker, mark.seconds, "killed")]
    killed = "SIGKILL" if mark.kind == "SIGKILL" else "SIGTERM kills it"
    return mark._replace(text=f"{killed} in {', '.join(cut)}") if cut else mark


def _lifecycle(event: Event, worker: str, seconds: float) -> list[Mark]:
    if event.kind == "crash":
        return [Mark(worker, seconds, "SIGKILL", "SIGKILL")]
    killed = event.ending is not None and event.ending.killed
    marks = [Mark(worker, seconds, "SIGTERM", "SIGTERM")] if event.kind == "signal" else []
    if killed:
        return [Mark(worker, seconds, "killed by it", "SIGTERM, killed by it")]
    if event.ending is not None and "/" not in (event.worker or ""):
        failed = event.ending.error is not None
        marks.append(Mark(worker, seconds, "failed" if failed else "left", "raises" if failed else "leaves"))
    return marks


def _seconds(event: Event) -> float:
    return event.time / 1e6
