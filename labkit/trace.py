"""What one execution left behind: its events, from which every picture and every table is drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labkit.actor import Ending
from labkit.schedule import Choice, Schedule
from labkit.source import Line
from labkit.words import in_seconds, shorten

if TYPE_CHECKING:
    from labkit.observe.measured import Metrics
    from labkit.observe.tracing import Spans
    from labkit.plots.figure import Picture
    from labkit.stores.mirror import Comparison

MOST_DRAWN = 100  # events in a picture that appears unasked
WIDEST_TEXT, WIDEST_REPLY = 90, 50  # characters of a table's columns


@dataclass(frozen=True, slots=True)
class Event:
    """One choice of an execution and what it did.

    Parameters
    ----------
    number: its place in the schedule, from 1.
    choice: what the scheduler chose.
    time: the lab's clock after it, in microseconds since the start.
    kind: `command`, `call`, `sleep`, `read`, `clock`, or the fault: `crash`, `signal`, `jump` or `failover`.
    text: the command or call as one would write it.
    reply: what came back, as text; empty when there is no reply.
    counts: whether it counts for the length of the trace.
    reads, writes: the keys that it looked at and changed.
    expiries: after it, each key that will vanish and the microseconds it has left.
    deadlines: after it, each named deadline that lives in data and is to come, and the microseconds until then.
    inside: after it, the critical sections that each worker is in.
    line: the line of the worker's code that took the step.
    ending: how the worker ended, when this was its last step.
    printed: what the worker printed right after this step.
    store: what was asked: `redis`, `sql`, `clock`, or a service's name; empty where nothing was.
    """

    number: int
    choice: Choice
    time: int
    kind: str
    text: str
    reply: str
    counts: bool
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    expiries: Mapping[str, int] = field(default_factory=dict)
    deadlines: Mapping[str, int] = field(default_factory=dict)
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    line: Line | None = None
    ending: Ending | None = None
    printed: str = ""
    store: str = ""

    @property
    def worker(self) -> str | None:
        """The worker that stepped or crashed; None for the clock."""
        return self.choice.worker

    @property
    def seconds(self) -> str:
        """The time as text, in seconds without needless zeros."""
        return in_seconds(self.time / 1e6)

    @property
    def summary(self) -> str:
        """What happened, in a few words: `SET k v -> True`."""
        return f"{self.text} -> {self.reply}" if self.reply else self.text


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that did not hold, and where.

    Parameters
    ----------
    property: its name.
    number: the number of the event after which it did not hold; 0 when the set-up already broke it.
    at_end: whether it was judged at the end.
    """

    property: str
    number: int
    at_end: bool

    def __str__(self) -> str:
        when = "at the end" if self.at_end else f"after step {self.number}" if self.number else "in the set-up"
        return f"{self.property!r} does not hold {when}"


@dataclass(frozen=True)
class Trace:
    """One execution.

    Parameters
    ----------
    workers: the workers' names, in the scenario's order.
    events: what happened, in order.
    violations: the properties that did not hold, each with the first event that broke it.
    over: whether the execution reached an end, so that `at_end` properties were judged.
    waiting: the workers that had not ended when the schedule did.
    stated: how many properties the scenario states.
    comparison: how a replay on a real server went, or None.
    unseen: what became of workers that raised before their first step, in words; no event tells it.
    origin: the scenario, the seed and the polls that it came from, to step through it; None when it is not known.
    """

    workers: tuple[str, ...]
    events: tuple[Event, ...]
    violations: tuple[Violation, ...]
    over: bool
    waiting: tuple[str, ...] = ()
    stated: int = 1
    comparison: Comparison | None = field(default=None, compare=False)
    unseen: tuple[str, ...] = ()
    origin: tuple[Callable[..., None], int, int] | None = field(default=None, compare=False, repr=False)

    @property
    def actors(self) -> tuple[str, ...]:
        """The workers, each followed by those of its threads that took a step, in order of appearance."""
        threads = dict.fromkeys(event.worker for event in self.events if event.worker and "/" in event.worker)
        return tuple(
            name for worker in self.workers for name in (worker, *(one for one in threads if _process(one) == worker))
        )

    def index_of(self, actor: str) -> int:
        """The place in the scenario of the worker that an actor belongs to."""
        return self.workers.index(_process(actor))

    @property
    def violation(self) -> Violation | None:
        """The first property that did not hold, or None."""
        return next(iter(self.violations), None)

    @property
    def schedule(self) -> Schedule:
        """The choices that made this execution."""
        return Schedule(event.choice for event in self.events)

    @property
    def length(self) -> int:
        """How many commands, service calls, clock and fault choices there were; sleeps and clock reads do not count."""
        return sum(event.counts for event in self.events)

    @property
    def headline(self) -> str:
        """What this execution shows, in a sentence, and who took no part in it."""
        return " ".join([self._shown, *(f"{ending}, before its first step." for ending in self.unseen)])

    @property
    def _shown(self) -> str:
        if self.violations:
            return "; ".join(map(str, self.violations)) + "."
        if not self.stated:
            return "The scenario states no property."
        if self.over:
            return "Every property holds in this execution."
        waiting = " and ".join(self.waiting)
        return f"Every property holds so far; the schedule ends before {waiting} did, so no end was judged."

    def table(self, source: bool = False, full: bool = False) -> str:
        """The execution as text: one row per event.

        Parameters
        ----------
        source: whether to show the line of code beside each step.
        full: whether to show long commands and replies whole.
        """
        text, reply = (sys.maxsize, sys.maxsize) if full else (WIDEST_TEXT, WIDEST_REPLY)
        rows = [("step", "time", "who", "what", "reply") + (("line",) if source else ())]
        for event in self.events:
            who = event.worker or ""
            note = _note(event, self.violations)
            row = (str(event.number), event.seconds, who, shorten(event.text, text), shorten(event.reply, reply) + note)
            rows.append(row + ((str(event.line) if event.line else "",) if source else ()))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, "", self.headline])

    def log(self) -> str:
        """What the workers printed, each line with its time and worker."""
        return "\n".join(
            f"{event.seconds:>8} {event.worker}: {line}" for event in self.events for line in event.printed.splitlines()
        )

    def lanes(self, source: bool = False) -> Picture:
        """The execution as a picture: a lane for each worker and one for the store; see `labkit.plots.lanes`.

        Parameters
        ----------
        source: whether to show the line of code beside each step.
        """
        from labkit.plots.lanes import lanes

        return lanes(self, source=source)

    def spans(self) -> Spans:
        """The execution as spans in the words of OpenTelemetry; see `labkit.observe.spans`."""
        from labkit.observe.tracing import spans

        return spans(self)

    def metrics(self) -> Metrics:
        """The metrics that the execution would have exported; see `labkit.observe.metrics`."""
        from labkit.observe.measured import metrics

        return metrics(self)

    def __repr__(self) -> str:
        return self.table()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """In a notebook, the picture; a trace too long to be looked at is shown as text."""
        return self.lanes()._repr_mimebundle_() if len(self.events) <= MOST_DRAWN else {"text/plain": self.table()}


def _process(actor: str) -> str:
    return actor.partition("/")[0]


def _note(event: Event, violations: tuple[Violation, ...]) -> str:
    notes = []
    if event.ending is not None and event.ending.error is not None:
        notes.append(f"{event.worker} {event.ending}")
    notes += [f"<-- breaks {broken.property!r}" for broken in violations if broken.number == event.number]
    return ("  " if event.reply and notes else "") + "  ".join(notes)
