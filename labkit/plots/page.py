"""The layout of the lane diagram: where every lane, row and label stands, in inches.

Labels are set in a font of fixed width, so their room is known without drawing them, and none can meet another.
"""

from __future__ import annotations

import math
import textwrap

from labkit.plots.intervals import Interval, intervals
from labkit.plots.style import CHARACTER, WIDEST, look
from labkit.trace import Event, Trace
from labkit.words import in_one_line, shorten

# Inches.
ROW, HEADER, GUTTER, PADDING, BAR = 0.27, 0.5, 1.12, 0.2, 0.075
LEGEND_ROW = 0.19
MOST_CHARACTERS = 46  # of a command in its lane; the table has it in full
MOST_REPLY = 18  # of them, for a reply to a long command
LIFE, LIFE_BAR = 0.2, 0.13  # from one bar beside a store to the next, and the width of each
OF_THE_SET_UP = 6  # the place of the look of what no worker caused
TITLES = {"redis": "Redis", "sql": "SQL"}


class Page:
    """Lanes as columns, rows for events, and a row for each broken property.

    The words stand in the lanes. When that becomes too wide, the lanes are narrow and the words stand beside them.

    Parameters
    ----------
    trace: what is drawn.
    source: whether the line of code stands beside each step.
    """

    def __init__(self, trace: Trace, source: bool) -> None:
        self.trace, self.source = trace, source
        self.lives = [found for found in intervals(trace) if found.kind in ("ttl", "deadline")]
        self.bars = [found for found in intervals(trace) if found not in self.lives]
        self.set_up = [broken_text(broken.property) for broken in trace.violations if not broken.number]
        self.rows: dict[int, float] = {}
        row = len(self.set_up)
        for event in trace.events:
            self.rows[event.number] = HEADER + ROW * (row + 0.5)
            row += 1 + self.extra(event)
        self.bottom = HEADER + ROW * (row + 0.3)
        longest = max((len(event.seconds) for event in trace.events), default=0)
        self.gutter = max(GUTTER, 0.1 + CHARACTER * (6 + longest))  # for the number of a step, and its time
        self._place(compact=False)
        if self.width > WIDEST:
            self._place(compact=True)
        self.legend = self._legend_rows()
        self.height = self.bottom + 0.2 + LEGEND_ROW * len(self.legend)

    def _place(self, compact: bool) -> None:
        """Set the left edge of every column."""
        self.left: dict[str, float] = {}
        self.compact = compact
        self.words: float | None = None
        edge = self.gutter
        for worker in self.trace.actors:
            self.left[worker] = edge
            title = len(self.title_of(worker)) + 2
            edge += self.bar_room(worker) + max(title, 0 if compact else self._longest(worker)) * CHARACTER + PADDING
        if compact:
            self.words = edge
            edge += max(map(self._longest, self.trace.actors), default=0) * CHARACTER + PADDING
        self.stores: dict[str, float] = {}
        for store in self._used_stores():
            self.stores[store], edge = edge, edge + self._store_width(store)
        self.outside, edge = edge, edge + self._outside_width()
        set_up = CHARACTER * max(map(len, self.set_up), default=0) + PADDING
        self.width = max(edge, 6.2, self.gutter + set_up)

    def _used_stores(self) -> list[str]:
        """Redis, and the database where it is used; without Redis where only that is."""
        asked = {event.store or "redis" for event in self.trace.events if event.kind == "command"}
        asked |= {life.store for life in self.lives}
        return [store for store in TITLES if store in asked or (store == "redis" and "sql" not in asked)]

    def target_of(self, event: Event) -> float:
        """Where the store stands that an event goes to."""
        return self.outside if event.kind == "call" else self.stores[event.store or "redis"]

    def title_of(self, actor: str) -> str:
        """What stands over a lane; where room is short, the name alone."""
        return actor if self.compact else f"thread {actor}" if "/" in actor else f"worker {actor}"

    def _longest(self, worker: str) -> int:
        """The number of characters that a worker's words need; the clock's stand with the first worker's."""
        lengths = [0]
        for event in self.trace.events:
            if (event.worker or self.trace.workers[0]) == worker:
                lengths += [len(label(event)), *(len(broken_text(name)) for name in self.broken_by(event))]
                lengths += [len(line(event))] if self.source else []
        return max(lengths) + 3

    def extra(self, event: Event) -> int:
        """How many rows stand under an event: its line of code, and the properties that it breaks."""
        return len(self.broken_by(event)) + bool(self.source and event.line)

    def broken_by(self, event: Event) -> list[str]:
        """The names of the properties that an event breaks."""
        return [broken.property for broken in self.trace.violations if broken.number == event.number]

    def marker_at(self, worker: str) -> float:
        """Where a worker's lane is."""
        return self.left[worker] + self.bar_room(worker)

    def lane_end(self, actor: str) -> float:
        """How far down an actor's lane goes: to the event with which it ends, alone or with its process."""
        for event in self.trace.events:
            own = event.worker == actor and event.ending is not None
            if own or (event.choice.process == actor.partition("/")[0] and _ends_process(event)):
                return self.rows[event.number]
        return self.bottom

    def bar_at(self, bar: Interval) -> float:
        """The left edge of a worker's bar, beside its lane."""
        assert bar.worker is not None
        return self.left[bar.worker] + self.slot(bar) * BAR * 1.7

    def look_of_life(self, life: Interval) -> int:
        """The place of the look in which it is drawn: that of the worker that caused it, or one for the set-up."""
        return self.trace.index_of(life.worker) if life.worker in self.trace.actors else OF_THE_SET_UP

    def life_at(self, life: Interval) -> float:
        """The left edge of the bar of what lives in a store, in the store's lane."""
        return self.stores[life.store] + 0.12 + self.slot(life) * LIFE

    def span(self, interval: Interval) -> tuple[float, float]:
        """The upper edge of an interval's bar, and its height."""
        end = self.bottom if interval.ended == "open" else self.rows[interval.last]
        return self.rows[interval.first], end - self.rows[interval.first]

    def label_at(self, event: Event) -> float:
        """Where an event's words start."""
        if self.words is not None:
            return self.words
        return self.marker_at(event.worker or self.trace.workers[0]) + 0.14

    def bar_room(self, worker: str) -> float:
        """How much room a worker's bars need to the left of its lane."""
        return BAR * 1.7 * self._most_at_once([bar for bar in self.bars if bar.worker == worker]) + 0.1

    def slot(self, interval: Interval) -> int:
        """Which of several bars side by side: the first that is free."""
        if interval in self.lives:
            peers = [life for life in self.lives if life.store == interval.store]
        else:
            peers = [bar for bar in self.bars if bar.worker == interval.worker]
        taken: list[float] = []
        for peer in peers:
            free = next(slot for slot in range(len(taken) + 1) if slot == len(taken) or taken[slot] <= peer.first)
            taken[free : free + 1] = [math.inf if peer.ended == "open" else peer.last]
            if peer is interval:
                return free
        raise ValueError(interval)

    def _most_at_once(self, bars: list[Interval]) -> int:
        return max((self.slot(bar) + 1 for bar in bars), default=0)

    def _store_width(self, store: str) -> float:
        longest = max(map(len, self.names_at(store).values()), default=0)
        return max(0.9, self.names_room(store) + longest * CHARACTER + PADDING)

    def names_room(self, store: str) -> float:
        """How much room the bars of what lives in a store need, to the right of its lane."""
        return 0.16 + LIFE * self._most_at_once([life for life in self.lives if life.store == store])

    def names_at(self, store: str) -> dict[int, str]:
        """What begins to live in a store, by the number of the event."""
        names: dict[int, list[str]] = {}
        for life in self.lives:
            if life.store == store:
                names.setdefault(life.first, []).append(life.name)
        return {number: shorten(in_one_line(", ".join(each)), MOST_CHARACTERS) for number, each in names.items()}

    @property
    def has_outside(self) -> bool:
        """Whether anything happens outside of the stores."""
        return any(event.kind == "call" for event in self.trace.events)

    def _outside_width(self) -> float:
        effects = [len(effect(event)) for event in self.trace.events if event.kind == "call"]
        return (max(effects) + 3) * CHARACTER + PADDING if effects else 0.0

    def _legend_rows(self) -> list[str]:
        shapes = [f"{worker}: {_SHAPES[look(index).marker]}" for index, worker in enumerate(self.trace.workers)]
        parts = ["workers " + ", ".join(shapes)]
        if any(bar.kind == "hold" for bar in self.bars):
            parts.append("patterned bar beside a lane: this worker believes that it holds the lock")
        if any(bar.kind == "section" for bar in self.bars):
            parts.append("solid bar: inside the section")
        if any(bar.kind == "transaction" for bar in self.bars):
            parts.append("empty bar: a transaction is open")
        kinds = {life.kind for life in self.lives}
        if kinds:
            lives = [text for kind, text in _LIVES.items() if kind in kinds]
            parts.append(f"bar beside a store: {', or '.join(lives)}, in the look of who caused it")
        if any(event.choice.kind == "lose" for event in self.trace.events):
            parts.append("✗ before a store: it was done, and the reply is lost")
        if any(event.kind in ("sleep", "read") for event in self.trace.events):
            parts.append("open marker: sleeps or reads the clock")
        return textwrap.wrap(" · ".join(parts), int((self.width - 0.2) / CHARACTER))


_SHAPES = {"o": "circle", "s": "square", "^": "triangle", "D": "diamond", "v": "flipped triangle", "P": "cross"}
_SHAPES["*"] = "star"
_LIVES = {"ttl": "a key lives", "deadline": "a message is hidden or a claim held"}


def _ends_process(event: Event) -> bool:
    """Whether a worker is gone after an event, with all its threads."""
    return event.kind == "crash" or (event.ending is not None and "/" not in (event.worker or ""))


def number_and_time(event: Event) -> str:
    """What stands at the left edge of an event's row."""
    return f"{event.number:>4} {event.seconds:>7}"


def label(event: Event) -> str:
    """What an event says in its lane."""
    if event.kind == "clock":
        gone = f"; gone: {in_one_line(', '.join(sorted(event.writes)))}" if event.writes else ""
        return shorten(f"clock: {event.text}{gone}", 2 * MOST_CHARACTERS)
    if event.kind == "failover":
        return shorten(f"failover: {event.text}", 2 * MOST_CHARACTERS)
    reply = f" -> {event.reply}" if event.reply and (event.kind != "call" or event.choice.kind == "lose") else ""
    if event.ending is not None and event.ending.error is not None:
        reply += f"; raised {event.ending.error}"
    if event.ending is not None and event.ending.killed:
        reply += " and is killed by it"
    # What came back matters: of a long request and a long reply, the reply keeps its share.
    room = max(MOST_CHARACTERS - len(event.text), MOST_REPLY)
    reply = shorten(reply, room)
    return shorten(event.text, MOST_CHARACTERS - len(reply)) + reply


def effect(event: Event) -> str:
    """What an event did in the outside world."""
    return "no effect" if event.reply == "already done" else event.text.partition(".")[0]


def line(event: Event) -> str:
    """The line of code beside an event."""
    return shorten(f"line {event.line.number}: {event.line.text}", MOST_CHARACTERS + 12) if event.line else ""


def broken_text(name: str) -> str:
    """What stands under an event that breaks a property."""
    return f"✗ breaks: {in_one_line(name)}"
