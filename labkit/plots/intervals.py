"""Stretches of a trace: how long a key lives or a message is hidden, and what a worker believes to be in or to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from labkit.trace import Event, Trace

# A worker that sends one of these with a lock's key believes no longer, whatever the server answers.
_LETTING_GO = ("DEL", "UNLINK", "script 'release")


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of a trace.

    Parameters
    ----------
    kind: `ttl` (a key that will expire), `deadline` (one that lives in data: a message is hidden, a claim is held),
        `hold` (a worker believes it holds a lock), `section` or `transaction`.
    name: the key, the deadline's name, or the section.
    worker: who set the key or the deadline, holds the lock, or is inside.
    first, last: the numbers of the events at which it begins and ends.
    ended: `expired`, `deleted`, `replaced`, `left`, `killed`, or `open` when it lasts longer than the trace.
    store: where it lives: `redis` or `sql`.
    """

    kind: str
    name: str
    worker: str | None
    first: int
    last: int
    ended: str
    store: str = "redis"


def intervals(trace: Trace) -> list[Interval]:
    """All stretches of a trace, in the order in which they begin."""
    writes = {(event.number, key) for event in trace.events for key in event.writes}
    keys = _lives(trace, "ttl", lambda event: event.expiries, writes)
    ahead = _lives(trace, "deadline", lambda event: event.deadlines, _moves(trace))
    found = [*keys, *ahead, *_holds(trace), *_sections(trace), *_transactions(trace)]
    return sorted(found, key=lambda interval: (interval.first, interval.kind, interval.name, interval.last))


def _lives(
    trace: Trace,
    kind: str,
    left_after: Callable[[Event], Mapping[str, int]],
    touches: set[tuple[int, str]],
) -> Iterator[Interval]:
    """What has a time to live, from the event that gave it one to the one after which it has none."""
    begun: dict[str, tuple[Event, str | None]] = {}
    for event in trace.events:
        left = left_after(event)
        for name, (start, setter) in list(begun.items()):
            taken_over = (event.number, name) in touches and event.choice.process != setter
            if name not in left or taken_over:
                ended = "replaced" if name in left else "expired" if event.kind == "clock" else "deleted"
                yield Interval(kind, name, setter, start.number, event.number, ended, _store(start))
                del begun[name]
        for name in left:
            if name not in begun:
                setter = event.choice.process if (event.number, name) in touches else None  # None: the set-up did
                begun[name] = (event, setter)
    for name, (start, setter) in begun.items():
        yield Interval(kind, name, setter, start.number, len(trace.events), "open", _store(start))


def _moves(trace: Trace) -> set[tuple[int, str]]:
    """The events at which workers set a deadline in data, or moved it, each with the deadline's name."""
    moves: set[tuple[int, str]] = set()
    before: dict[str, int] = {}
    for event in trace.events:
        ends = {name: event.time + left for name, left in event.deadlines.items()}
        if event.writes and event.worker is not None:
            moves.update((event.number, name) for name, end in ends.items() if before.get(name) != end)
        before = ends
    return moves


def _store(start: Event) -> str:
    return "sql" if start.store == "sql" else "redis"


def _transactions(trace: Trace) -> Iterator[Interval]:
    """Open transactions of the database, from the first statement that writes to the commit or the rollback."""
    begun: dict[str, Event] = {}
    for event in trace.events:
        over = event.store == "sql" and event.text in ("COMMIT", "ROLLBACK")
        for worker, start in list(begun.items()):
            ended = _ended(event, worker) or ("left" if over and event.worker == worker else None)
            if ended is not None:
                yield Interval("transaction", "transaction", worker, start.number, event.number, ended, "sql")
                del begun[worker]
        if event.store == "sql" and event.writes and event.worker and not over and event.ending is None:
            begun.setdefault(event.worker, event)
    for worker, start in begun.items():
        yield Interval("transaction", "transaction", worker, start.number, len(trace.events), "open", "sql")


def _holds(trace: Trace) -> Iterator[Interval]:
    """Locks as their holders see them: from the SET NX that won to the release, whatever became of the key."""
    held: dict[tuple[str, str], Event] = {}
    for event in trace.events:
        for (worker, key), start in list(held.items()):
            ended = _ended(event, worker)
            released = event.text.startswith(_LETTING_GO) and key in event.text.split()
            gone = key in event.writes and key not in event.expiries
            if ended or (event.worker == worker and (released or gone)):
                yield Interval("hold", key, worker, start.number, event.number, ended or "left")
                del held[worker, key]
        taken = _lock_taken(event)
        if taken is not None and event.worker is not None and event.ending is None:
            held[event.worker, taken] = event
    for (worker, key), start in held.items():
        yield Interval("hold", key, worker, start.number, len(trace.events), "open")


def _ended(event: Event, actor: str) -> str | None:
    """How an event ends an actor, alone or with its process, if it does: `killed` or `left`."""
    if event.worker not in (actor, actor.partition("/")[0]):
        return None
    if event.kind == "crash" or (event.ending is not None and event.ending.killed):
        return "killed"
    return "left" if event.ending is not None else None


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
                ended = _ended(event, place[0]) or "left"
                yield Interval("section", place[1], place[0], start.number, event.number, ended)
                del begun[place]
        for place in now:
            begun.setdefault(place, event)
    for place, start in begun.items():
        yield Interval("section", place[1], place[0], start.number, len(trace.events), "open")
