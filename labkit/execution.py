"""One execution: of a schedule that is given, or of one drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from labkit.engine import Budgets, Engine, State
from labkit.errors import ScheduleError
from labkit.events import event_of
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.machine import DEAD, FINISHED
from labkit.schedule import Schedule
from labkit.trace import Event, Trace, Violation

# More steps than any scenario of the lab takes; a worker that polls for ever must not run for ever.
MOST_STEPS = 10_000


class Walk:
    """An execution in progress.

    Parameters
    ----------
    engine: made with absolute time, so that events know when they happened.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = engine.start
        self.enabled = engine.enabled(self.state)
        self.events: list[Event] = []
        self.violations: dict[str, Violation] = {}
        self._judge(self.state)

    def take(self, code: int) -> Event:
        """Take one enabled choice, by its number."""
        before = self.state
        move = self.engine.take(before, code)
        event = event_of(self.engine, before, move, number=len(self.events) + 1)
        self.state, self.enabled = move.state, self.engine.enabled(move.state)
        self.events.append(event)
        self._judge(before)
        return event

    def trace(self) -> Trace:
        """The execution so far."""
        engine = self.engine
        waiting = tuple(name for code, name in enumerate(engine.names) if engine.number_of(self.state, code) >= 0)
        over = engine.is_end(self.enabled)
        return Trace(
            tuple(engine.names),
            tuple(self.events),
            tuple(self.violations.values()),
            over,
            waiting,
            len(engine.properties),
        )

    def _judge(self, before: State) -> None:
        engine, count = self.engine, len(self.events)
        end = engine.is_end(self.enabled)
        kinds = {prop.name: prop.kind for prop in engine.properties}
        broken = engine.judge.broken(self.state, end)
        broken += engine.judge.broken_by(before, self.state) if count else ()
        for name in broken:
            self.violations.setdefault(name, Violation(name, count, at_end=kinds[name] == "at_end"))


def replay(scenario: Scenario, schedule: Schedule | str, *, seed: int = 0, polls: int = 3) -> Trace:
    """Execute one schedule: the same trace, every time, anywhere.

    Parameters
    ----------
    scenario: builds the world.
    schedule: the choices, as text or as a `Schedule`. It may stop before the end; the trace then says so.
    seed: what everything random depends on; the one that the schedule was found with.
    polls: after how many unchanged rounds a polling worker is left alone, as in `explore`.

    Raises `ScheduleError` when it names an unknown worker or a choice that is not enabled at that point.
    """
    wanted = Schedule.parse(schedule)
    return _execute(scenario, seed, faults=len(wanted), polls=polls, choose=lambda walk: _follow(walk, wanted))


def run(scenario: Scenario, *, seed: int = 0, polls: int = 3) -> Trace:
    """Execute one schedule drawn at random: no faults, and time passes only when no worker can step.

    Parameters
    ----------
    scenario: builds the world.
    seed: another seed draws another schedule, and other random values in the workers.
    polls: after how many unchanged rounds a polling worker is left alone, as in `explore`.
    """
    chance = random.Random(f"{seed}:schedule")

    def choose(walk: Walk) -> Iterable[int]:
        while walk.enabled and len(walk.events) < MOST_STEPS:
            yield chance.choice(walk.enabled)

    return _execute(scenario, seed, faults=0, polls=polls, choose=choose)


def _execute(scenario: Scenario, seed: int, faults: int, polls: int, choose: Callable[[Walk], Iterable[int]]) -> Trace:
    with intercepted():
        budgets = Budgets(faults, faults, None if faults else 0, None if faults else 0, polls)
        engine = Engine(scenario, budgets, seed=seed)
        try:
            walk = Walk(engine)
            for code in choose(walk):
                walk.take(code)
            engine.check_globals()
            return walk.trace()
        finally:
            engine.close(collect=False)


def _follow(walk: Walk, schedule: Schedule) -> Iterable[int]:
    engine = walk.engine
    for place, choice in enumerate(schedule, 1):
        if choice.worker is not None and choice.worker not in engine.names:
            known = ", ".join(engine.names)
            raise ScheduleError(f"choice {place}, `{choice}`: there is no worker {choice.worker}; there are {known}")
        for code in walk.enabled:
            if engine.choice(code) == choice:
                yield code
                break
        else:
            raise ScheduleError(_why_not(walk, place, schedule))


def _why_not(walk: Walk, place: int, schedule: Schedule) -> str:
    engine, choice = walk.engine, schedule[place - 1]
    enabled = [f"`{engine.choice(code)}`" for code in walk.enabled]
    if not enabled:
        extra = len(schedule) - place + 1
        return f"the execution is over after {place - 1} choices; the schedule has {extra} too many, from `{choice}` on"
    why = "is not enabled"
    if choice.worker is not None:
        code = engine.names.index(choice.worker)
        number = engine.number_of(walk.state, code)
        if number < 0:
            why = {FINISHED: "has returned", DEAD: "was killed"}.get(number, "raised an exception and is gone")
        elif engine.plans[code].spared and choice.is_fault:
            why = "is spared, so no fault hits it"
        elif choice.kind == "signal":
            why = "was signalled before, or the scenario does not say `signals=1` for it"
        elif engine.machines[code].idle[number]:
            why = "polls, and would learn nothing new"
        elif (left := engine.machines[code].left[number]) > 0:
            why = f"waits for another {left / 1e6:g} s"
        elif left < 0:
            why = "waits for what only another worker can bring"
        why = f"{choice.worker} {why}"
    else:
        why = "there is no deadline to go to, or a spared worker must step first"
    return f"choice {place}, `{choice}`, is not possible: {why}. Possible: {', '.join(enabled)}"
