"""Judges a live run: what can be known about its properties, and how.

Nobody sees a real system after every step. What can be known afterwards is judged for every moment: effects of services
and stays in critical sections, each of which has its time. What lives in stores is looked at while the run goes on, now
and then, and at the end.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from labkit.processes.effects import Effect, Effects
from labkit.processes.merging import Stay
from labkit.processes.part import Part
from labkit.properties import Property
from labkit.stores.services import Call
from labkit.trace import Event, Violation

EVERY_MOMENT = "at every moment, afterwards"
NOW_AND_THEN = "now and then, and at the end"
AT_END = "at the end"
PERIOD = 0.02  # seconds between two looks, if looking costs less than a tenth of that
_SHARE = 10  # no more than this part of the time is spent on looking


@dataclass
class Observer:
    """Looks at a run.

    Parameters
    ----------
    part: of the process that runs the whole.
    effects: what the services did.
    """

    part: Part
    effects: Effects
    properties: Sequence[Property] = ()
    seen: dict[str, int] = field(default_factory=dict)  # by property, when it was first seen broken
    looks: int = 0

    def __post_init__(self) -> None:
        self._all: tuple[Effect, ...] = ()
        self._stays: Sequence[Stay] = ()
        self._moment: int | None = None
        self._before: dict[str, Any] = {}
        self._next = 0.0

    # ---- what properties see

    def effects_of(self, service: str) -> tuple[Call, ...]:
        """What a service has done by the moment that is looked at."""
        return tuple(
            effect.call
            for effect in self._all
            if effect.service == service and (self._moment is None or effect.at <= self._moment)
        )

    def inside(self, section: str) -> int:
        """How many workers are in a section at the moment that is looked at; nobody knows while the run goes on."""
        at = self._moment
        self.part.touched.add("sections")
        if at is None:
            return 0
        return len({stay.worker for stay in self._stays if stay.section == section and stay.since <= at < stay.until})

    # ---- while the run goes on

    def look(self, force: bool = False) -> None:
        """Ask every `always` property, unless that was a moment ago."""
        began = time.monotonic()
        if began < self._next and not force:
            return
        self.looks += 1
        self.refresh()
        for prop in self.properties:
            if prop.kind == "always" and not self._holds(prop):
                self.seen.setdefault(prop.name, time.time_ns())
        took = time.monotonic() - began
        self._next = began + took + max(PERIOD, took * _SHARE)

    def refresh(self) -> None:
        """Take notice of the effects so far."""
        self._all = self.effects.all()

    def end_holds(self) -> bool:
        """Whether every property of the end holds now."""
        self.refresh()
        return all(prop.holds() for prop in self.properties if prop.kind == "at_end")

    def _holds(self, prop: Property) -> bool:
        if prop.remember is None:
            return prop.holds()
        now = prop.observe()
        before = self._before.setdefault(prop.name, now)
        self._before[prop.name] = now
        return prop.holds(before, now)

    # ---- when it is over

    def verdicts(
        self, events: Sequence[Event], stays: Sequence[Stay], start: int, over: bool
    ) -> tuple[tuple[Violation, ...], dict[str, str]]:
        """The properties that did not hold, in their order, and how each was looked at."""
        self._stays = stays
        self.look(force=True)
        times = [event.time for event in events]
        found, how = [], {}
        for prop in self.properties:
            how[prop.name] = AT_END
            at: int | None = None
            if prop.kind == "always":
                at, how[prop.name] = self._first_broken(prop)
            elif over and not prop.holds():
                at = time.time_ns()
            if at is not None:
                number = max(bisect.bisect_right(times, (at - start) // 1_000), min(1, len(times)))
                found.append(Violation(prop.name, number, at_end=prop.kind == "at_end"))
        return tuple(found), how

    def _first_broken(self, prop: Property) -> tuple[int | None, str]:
        """When a property was first broken, or first seen to be; None when it was not; and how that is known."""
        moments = sorted({effect.at for effect in self._all} | {stay.since for stay in self._stays})
        if prop.remember is None:
            for moment in moments:
                with self._at(moment):
                    holds = prop.holds()
                if self.part.touched & {"redis", "sql"}:
                    break
                if not holds:
                    return moment, EVERY_MOMENT
            else:
                if moments:
                    return self.seen.get(prop.name), EVERY_MOMENT
        return self.seen.get(prop.name), NOW_AND_THEN

    @contextmanager
    def _at(self, moment: int) -> Iterator[None]:
        """Look at a moment that is over."""
        self.part.touched.clear()
        self._moment = moment
        try:
            yield
        finally:
            self._moment = None
