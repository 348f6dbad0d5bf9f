"""One execution: a schedule that is given, or drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from labkit.engine import Budgets, Engine, Move, State
from labkit.errors import ScheduleError
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.machine import DEAD, FINISHED
from labkit.moment import LOST, SIGNAL
from labkit.process import Ending
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
        self._engine = engine
        self.state = engine.start
        self.enabled = engine.enabled(self.state)
        self.events: list[Event] = []
        self.violations: dict[str, Violation] = {}
        self._judge(self.state)

    def take(self, code: int) -> Event:
        """Take one enabled choice, by its number."""
        before = self.state
        move = self._engine.take(before, code)
        event = self._event(before, move)
        self.state, self.enabled = move.state, self._engine.enabled(move.state)
        self.events.append(event)
        self._judge(before)
        return event

    def trace(self) -> Trace:
        """The execution so far."""
        engine = self._engine
        waiting = tuple(name for code, name in enumerate(engine.names) if engine.number_of(self.state, code) >= 0)
        over = engine.is_end(self.enabled)
        return Trace(tuple(engine.names), tuple(self.events), tuple(self.violations.values()), over, waiting)

    def _judge(self, before: State) -> None:
        engine, count = self._engine, len(self.events)
        end = engine.is_end(self.enabled)
        kinds = {prop.name: prop.kind for prop in engine.properties}
        broken = engine.judge.broken(self.state, end)
        broken += engine.judge.broken_by(before, self.state) if count else ()
        for name in broken:
            self.violations.setdefault(name, Violation(name, count, at_end=kinds[name] == "at_end"))

    def _event(self, before: State, move: Move) -> Event:
        engine, number = self._engine, len(self.events) + 1
        stores = engine.world.stores
        choice, time = engine.choice(move.code), move.state[0]
        expiries: dict[str, int] = {}
        for slot, store in enumerate(stores):
            expiries.update(store.expiries(move.state[slot]))
        inside = self._inside(move.state)
        if choice.kind == "clock":
            text = f"{(time - before[0]) / 1e6:g} s pass"
            gone = [key for slot, store in enumerate(stores) for key in store.expiries(before[slot])]
            writes = tuple(sorted(key for key in gone if key not in expiries))
            return Event(number, choice, time, "clock", text, "", True, (), writes, expiries, inside)
        worker = move.code % len(engine.machines)
        machine = engine.machines[worker]
        moment = machine.moments[engine.number_of(before, worker)]
        if choice.kind in ("crash", "signal"):
            text = "is killed" if choice.kind == "crash" else "gets SIGTERM"
            after = machine.after(moment, SIGNAL, wrote=True) if choice.kind == "signal" else None
            ending = after.arrived if after is not None and isinstance(after.arrived, Ending) else None
            printed = after.printed if after is not None else ""
            return Event(
                number, choice, time, choice.kind, text, "", True, (), (), expiries, inside, None, ending, printed
            )
        operation = moment.step.operation
        slot = engine.world.slots[operation.store]
        outcome = stores[slot].apply(before[slot], operation.request, before[0])
        shown = stores[slot].describe(operation.request)
        lost = choice.kind == "lose"
        after = machine.after(moment, LOST if lost else outcome.reply, wrote=lost or outcome.wrote)
        reply = "the reply is lost" if lost else stores[slot].show_reply(operation.request, outcome.reply)
        return Event(
            number,
            choice,
            time,
            shown.kind,
            shown.text,
            reply,
            lost or bool(shown.costs),
            outcome.reads,
            outcome.writes,
            expiries,
            inside,
            moment.step.line,
            after.arrived if isinstance(after.arrived, Ending) else None,
            (moment.printed if moment.parent is None else "") + after.printed,
        )

    def _inside(self, state: State) -> dict[str, tuple[str, ...]]:
        found = {}
        for code, machine in enumerate(self._engine.machines):
            number = self._engine.number_of(state, code)
            if number >= 0 and machine.moments[number].step.sections:
                found[machine.name] = machine.moments[number].step.sections
        return found


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
    engine = walk._engine
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
    engine, choice = walk._engine, schedule[place - 1]
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
