"""You are the scheduler: an execution that is taken choice by choice, and back, and looked at in between."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from labkit.budgets import BUDGET_OF, Budgets
from labkit.contents import Holding, holdings
from labkit.engine import UNLIMITED, Engine
from labkit.errors import ScheduleError
from labkit.execution import Walk, why_not
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.properties import check_stated
from labkit.schedule import FAULTS, Choice, Schedule
from labkit.search.every_schedule import explore
from labkit.trace import Event, Trace
from labkit.verdict import Verdict
from labkit.words import in_seconds
from labkit.worker_view import WorkerView, at_line, look_at_worker

ENOUGH_STATES = 20_000  # to look for the shortest way; a learner waits for it
_NOUNS = {"lose": "lost reply", "jump": "clock jump"}  # of faults whose name in a schedule is none


class PropertyView(NamedTuple):
    """A property as it stands.

    Parameters
    ----------
    name: what must hold.
    broken_at: the number of the step that broke it, 0 for the set-up; None while nothing did.
    is_open: whether it is judged at the end only, and the end is still to come.
    """

    name: str
    broken_at: int | None
    is_open: bool

    def __str__(self) -> str:
        if self.broken_at is not None:
            return f"✗ {self.name}: broken " + (f"at step {self.broken_at}" if self.broken_at else "by the set-up")
        return f"… {self.name}: judged at the end" if self.is_open else f"✓ {self.name}: holds so far"


class Play:
    """An execution that somebody steps through.

    Parameters
    ----------
    scenario: builds the world.
    schedule: the choices to begin with; they can be undone.
    budgets: what may go wrong; with nothing given, nothing may, and time passes only when no worker can step.
    seed: what everything random depends on.

    Raises `ScheduleError` when the schedule does not fit the scenario.
    """

    def __init__(
        self, scenario: Scenario, schedule: Schedule | str = "", budgets: Budgets | None = None, seed: int = 0
    ) -> None:
        self.scenario, self.budgets, self.seed = scenario, budgets or Budgets(), seed
        self._ahead: list[Choice] = []  # what was undone, the next one first
        self._thread: threading.Thread | None = None
        self._verdict: Verdict | None = None
        with intercepted():
            self._begin(())
        self.paste(schedule)

    # ---- going on and back

    def take(self, choice: Choice | str) -> Event:
        """Take one choice; `ScheduleError` when it is not possible now."""
        wanted = Choice.parse(choice) if isinstance(choice, str) else choice
        with self._here():
            event = self._take(wanted)
        follows = bool(self._ahead) and self._ahead[0] == wanted
        self._ahead = self._ahead[1:] if follows else []
        return event

    def undo(self) -> None:
        """Take back the last choice; nothing happens when there is none."""
        self._go_to(len(self.schedule) - 1)

    def redo(self) -> None:
        """Take the choice again that was undone last; nothing happens when there is none."""
        self._go_to(len(self.schedule) + 1)

    def reset(self) -> None:
        """Back to the beginning; `redo` leads on from there, as after `undo`."""
        self._go_to(0)

    def paste(self, schedule: Schedule | str) -> None:
        """Take a whole schedule from the beginning instead; on `ScheduleError` everything stays as it was."""
        wanted = Schedule.parse(schedule)
        before, ahead = self.schedule, self._ahead
        with self._here():
            try:
                self._rewind(())
                for place, choice in enumerate(wanted, 1):
                    self._take(choice, place)
            except BaseException:
                self._rewind(before)
                self._ahead = ahead
                raise
        self._ahead = []

    @property
    def ahead(self) -> Schedule:
        """The choices that were undone, the next one first."""
        return Schedule(self._ahead)

    # ---- what is to be seen

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be chosen now: steps first, then the clock, then faults."""
        with self._here() as walk:
            return tuple(walk.engine.choice(walk.state, code) for code in walk.enabled)

    def why_not(self, choice: Choice) -> str:
        """Why a choice is not possible now, in a few words; empty when it is."""
        with self._here() as walk:
            return "" if self._code(walk, choice) is not None else self._why_not(walk, choice)

    def left(self, kind: str) -> int | None:
        """How often a fault of a kind, or a pause (`clock`), may still be chosen; None for any number."""
        with self._here() as walk:
            engine = walk.engine
            place = engine.first_worker + len(engine.names) + ("clock", *FAULTS).index(kind)
            return None if walk.state[place] == UNLIMITED else walk.state[place]

    @property
    def trace(self) -> Trace:
        """The execution so far."""
        with self._here() as walk:
            return replace(walk.trace(), origin=(self.scenario, self.seed, self.budgets.polls))

    @property
    def broken(self) -> list[str]:
        """The properties that do not hold, in the order in which they broke."""
        return list(self._walk.violations)

    @property
    def schedule(self) -> Schedule:
        """The choices taken so far."""
        return Schedule(event.choice for event in self._walk.events)

    @property
    def seconds(self) -> float:
        """The lab's clock, in seconds since the start."""
        return self._walk.now

    @property
    def workers(self) -> list[WorkerView]:
        """What each worker is at, in the scenario's order, its threads after it."""
        with self._here() as walk:
            return [view for worker in range(len(walk.engine.names)) for view in look_at_worker(walk, worker)]

    @property
    def holdings(self) -> list[Holding]:
        """What the stores hold, and what the services did."""
        with self._here() as walk:
            return holdings(walk.engine, walk.state)

    @property
    def properties(self) -> list[PropertyView]:
        """What must hold, as it stands."""
        with self._here() as walk:
            over, broken = walk.is_over, walk.violations
            return [
                PropertyView(
                    prop.name,
                    broken[prop.name].number if prop.name in broken else None,
                    prop.kind == "at_end" and prop.name not in broken and not over,
                )
                for prop in walk.engine.properties
            ]

    def check_stated(self, name: str) -> None:
        """Raise `ScenarioError` when the scenario states no property of that name."""
        check_stated(name, (prop.name for prop in self.properties))

    @property
    def is_over(self) -> bool:
        """Whether the execution has reached an end."""
        return self._walk.is_over

    # ---- the shortest way

    def explore(self) -> Verdict:
        """Every schedule within the same budgets, searched once and remembered."""
        if self._verdict is None:
            budgets = vars(self.budgets)
            self._verdict = explore(self.scenario, seed=self.seed, max_states=ENOUGH_STATES, **budgets)
        return self._verdict

    # ---- as text

    def __str__(self) -> str:
        """The state in words."""
        count = len(self.schedule)
        lines = [f"after {count} {'choice' if count == 1 else 'choices'}, at {in_seconds(self.seconds)}"]
        lines += [f"  {view.name}: {view.text}{at_line(view)}" for view in self.workers]
        lines += [
            f"  {held.store}: {held.name} = {held.value}" + f" ({held.ttl})" * bool(held.ttl) for held in self.holdings
        ]
        lines += [f"  {prop}" for prop in self.properties]
        lines.append(f"  schedule: {self.schedule}" if count else "  schedule: nothing chosen yet")
        lines.append("  you can choose: " + (", ".join(map(str, self.choices)) or "nothing more, it is over"))
        return "\n".join(lines)

    # ---- inside

    @contextmanager
    def _here(self) -> Iterator[Walk]:
        """The walk, in this thread: workers cannot go on in another than they began in.

        Notebooks handle clicks in another thread than cells.
        """
        with intercepted():
            if self._thread is not threading.current_thread():
                self._begin(self.schedule)
            yield self._walk

    def _begin(self, schedule: Iterable[Choice]) -> None:
        engine = Engine(self.scenario, self.budgets, seed=self.seed)
        # A worker that is garbage must not run its `finally` blocks: nobody would know in whose name.
        weakref.finalize(self, engine.close, collect=False)
        self._thread, self._walk = threading.current_thread(), Walk(engine)
        for choice in schedule:
            self._take(choice)

    def _rewind(self, schedule: Iterable[Choice]) -> None:
        self._walk = Walk(self._walk.engine)
        for choice in schedule:
            self._take(choice)

    def _go_to(self, count: int) -> None:
        known = [*self.schedule, *self._ahead]
        count = min(max(count, 0), len(known))
        with self._here():
            if count < len(self.schedule):
                self._rewind(known[:count])
            else:
                for choice in known[len(self.schedule) : count]:
                    self._take(choice)
        self._ahead = known[count:]

    def _take(self, choice: Choice, place: int | None = None) -> Event:
        code = self._code(self._walk, choice)
        if code is None:
            where = f"choice {place}, `{choice}`," if place else f"`{choice}`"
            enabled = ", ".join(f"`{self._walk.engine.choice(self._walk.state, code)}`" for code in self._walk.enabled)
            reason = self._why_not(self._walk, choice)
            raise ScheduleError(f"{where} is not possible: {reason}. Possible: {enabled or 'nothing, it is over'}")
        before = self.schedule
        try:
            event = self._walk.take(code)
            self._walk.engine.check_python_state()
        except BaseException:  # of a property's check, for example; the choice is as if it had not been taken
            self._rewind(before)
            raise
        return event

    @staticmethod
    def _code(walk: Walk, choice: Choice) -> int | None:
        return next((code for code in walk.enabled if walk.engine.choice(walk.state, code) == choice), None)

    def _why_not(self, walk: Walk, choice: Choice) -> str:
        if choice.is_fault and self.left(choice.kind) == 0:
            noun = _NOUNS.get(choice.kind, choice.kind)
            return f"no {noun} is left; `{BUDGET_OF[choice.kind]}=` says how many there may be"
        return why_not(walk, choice)
