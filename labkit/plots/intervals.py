"""Stretches of a trace: how long a key lives, how long a worker believes it holds a lock or is in a section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.trace import Event, Trace

# A worker that sends one of these with a lock's key believes no longer, whatever the server answers.
_LETTING_GO = ("DEL", "UNLINK", "script 'release")


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of a trace.

    Parameters
    ----------
    kind: `ttl` (a key that will expire), `hold` (a worker believes it holds a lock) or `section`.
    name: the key, or the section.
    worker: who set the key, holds the lock, or is inside.
    first, last: the numbers of the events at which it begins and ends.
    ended: `expired`, `deleted`, `replaced`, `left`, `killed`, or `open` when it lasts longer than the trace.
    """

    kind: str
    name: str
    worker: str | None
    first: int
    last: int
    ended: str


def intervals(trace: Trace) -> list[Interval]:
    """All stretches of a trace, in the order in which they begin."""
    found = [*_lives(trace), *_holds(trace), *_sections(trace)]
    return sorted(found, key=lambda interval: (interval.first, interval.kind, interval.name, interval.last))


def _lives(trace: Trace) -> Iterator[Interval]:
    """Keys with a time to live, from the event that set them to the one after which they are gone."""
    begun: dict[str, Event] = {}
    setters: dict[str, str | None] = {}
    for event in trace.events:
        for key, start in list(begun.items()):
            if key not in event.expiries:
                ended = "expired" if event.kind == "clock" else "deleted"
                yield Interval("ttl", key, setters[key], start.number, event.number, ended)
                del begun[key]
            elif key in event.writes and event.choice.process != setters[key]:
                yield Interval("ttl", key, setters[key], start.number, event.number, "replaced")
                begun[key], setters[key] = event, event.choice.process
        for key in event.expiries:
            if key not in begun:
                begun[key] = event
                setters[key] = event.choice.process if key in event.writes else None  # None: the set-up did
    for key, start in begun.items():
        yield Interval("ttl", key, setters[key], start.number, len(trace.events), "open")


def _holds(trace: Trace) -> Iterator[Interval]:
    """Locks as their holders see them: from the SET NX that won to the release, whatever became of the key."""
    held: dict[tuple[str, str], Event] = {}
    for event in trace.events:
        for (worker, key), start in list(held.items()):
            dies = event.kind == "crash" and event.worker == worker.partition("/")[0]
            if event.worker != worker and not dies:
                continue
            released = event.text.startswith(_LETTING_GO) and key in event.text.split()
            gone = key in event.writes and key not in event.expiries
            if released or gone or dies or event.ending is not None:
                ended = "killed" if dies else "left"
                yield Interval("hold", key, worker, start.number, event.number, ended)
                del held[worker, key]
        taken = _lock_taken(event)
        if taken is not None and event.worker is not None and event.ending is None:
            held[event.worker, taken] = event
    for (worker, key), start in held.items():
        yield Interval("hold", key, worker, start.number, len(trace.events), "open")


def _lock_taken(event: Event) -> str | None:
    words = event.text.split()
    if event.kind != "command" or len(words) < 3 or words[1] not in event.writes:
        return None
    taken = (words[0] == "SET" and "NX" in words[3:]) or words[0] == "SETNX"
    return words[1] if taken else None


def _sections(trace: Trace) -> Iterator[Interval]:
    """Critical sections, from the event after which a worker is inside to the one after which it is not."""
    begun: dict[tuple[str, str], Event] = {}
    for event in trace.events:
        now = {(worker, name) for worker, names in event.inside.items() for name in names}
        for place, start in list(begun.items()):
            if place not in now:
                ended = "killed" if event.kind == "crash" else "left"
                yield Interval("section", place[1], place[0], start.number, event.number, ended)
                del begun[place]
        for place in now:
            begun.setdefault(place, event)
    for place, start in begun.items():
        yield Interval("section", place[1], place[0], start.number, len(trace.events), "open")
