"""One execution: of a schedule that is given, or of one drawn at random."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from labkit.budgets import Budgets
from labkit.engine import Engine, Move, State
from labkit.errors import LabError, ScheduleError
from labkit.events import event_of
from labkit.interception import MICROSECONDS, intercepted
from labkit.lab import Scenario
from labkit.machine import DEAD, FINISHED
from labkit.schedule import Choice, Schedule
from labkit.stores.mirror import Mirror
from labkit.trace import Event, Trace, Violation
from labkit.words import in_seconds

# More steps than any scenario of the lab takes; a worker that polls for ever must not run for ever.
MOST_STEPS = 10_000


class Walk:
    """An execution in progress.

    Parameters
    ----------
    engine: made with absolute time, so that events know when they happened.
    mirror: a real server that is told the same, or None.
    """

    def __init__(self, engine: Engine, mirror: Mirror | None = None) -> None:
        self.engine = engine
        self._mirror = mirror
        if mirror is not None:
            for operation, reply in engine.world.tape:
                if operation.store == "redis":
                    mirror.apply("", operation.request, reply)
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
        if self._mirror is not None:
            self._tell(self._mirror, before, move, event)
        self.state, self.enabled = move.state, self.engine.enabled(move.state)
        self.events.append(event)
        self._judge(before)
        return event

    @property
    def now(self) -> float:
        """The seconds since the start."""
        return self.state[0] / MICROSECONDS

    @property
    def is_over(self) -> bool:
        """Whether the execution has reached an end."""
        return self.engine.is_end(self.enabled) and not self.engine.is_cut(self.state)

    def trace(self) -> Trace:
        """The execution so far."""
        engine = self.engine
        waiting = tuple(name for code, name in enumerate(engine.names) if engine.number_of(self.state, code) >= 0)
        comparison = self._mirror.comparison if self._mirror is not None else None
        return Trace(
            tuple(engine.names),
            tuple(self.events),
            tuple(self.violations.values()),
            self.is_over,
            waiting,
            len(engine.properties),
            comparison,
            tuple(self._raised_at_once(waiting)),
        )

    def _raised_at_once(self, waiting: Collection[str]) -> Iterator[str]:
        """The workers that raised before their first step, and how."""
        stepped = {event.choice.process for event in self.events}
        for name, ending in self.engine.raised().items():
            if name not in stepped and name not in waiting and name in self.engine.names:
                yield f"{name} {ending}"

    def _tell(self, mirror: Mirror, before: State, move: Move, event: Event) -> None:
        """Do the same on the real server."""
        engine = self.engine
        if event.kind == "failover":
            raise LabError("a failover cannot be replayed on a real server: the lab would have to be its replica")
        if event.kind == "clock":
            redis_store, slot = engine.world.stores[1], 1
            mirror.age(redis_store.expiries(before[slot]), redis_store.expiries(move.state[slot]))
            return
        _, worker, actor = engine.codes.meaning(move.code)
        operation = engine.moment_of(before, worker).operation_of(actor)
        if event.kind == "command" and operation.store == "redis":
            outcome = engine.world.stores[1].apply(before[1], operation.request, before[0])
            mirror.apply(engine.name_of(before, worker, actor), operation.request, outcome.reply)
            if event.choice.kind == "lose":
                mirror.lose(engine.name_of(before, worker, actor), operation.request)
        if not engine.is_alive(move.state, worker):
            mirror.hang_up(engine.names[worker])

    def _judge(self, before: State) -> None:
        engine, count = self.engine, len(self.events)
        end = self.is_over
        kinds = {prop.name: prop.kind for prop in engine.properties}
        broken = engine.judge.broken(self.state, end)
        broken += engine.judge.broken_by(before, self.state) if count else ()
        for name in broken:
            self.violations.setdefault(name, Violation(name, count, at_end=kinds[name] == "at_end"))


def replay(
    scenario: Scenario, schedule: Schedule | str, *, seed: int = 0, polls: int = 3, redis_url: str | None = None
) -> Trace:
    """Execute one schedule: the same trace, every time, anywhere.

    Parameters
    ----------
    scenario: builds the world.
    schedule: the choices, as text or as a `Schedule`. It may stop before the end; the trace then says so.
    seed: what everything random depends on; the one that the schedule was found with.
    polls: after how many unchanged rounds a polling worker is left alone, as in `explore`.
    redis_url: a real server to send the same requests to, under a prefix of the lab's own; every reply is compared.

    Raises `ScheduleError` when it names an unknown worker or a choice that is not enabled at that point, and
    `RealServerDiffers` when the real server answers otherwise.
    """
    wanted = Schedule.parse(schedule)
    failovers = sum(choice.kind == "failover" for choice in wanted)
    budgets = Budgets(len(wanted), len(wanted), None, None, polls, len(wanted), failovers)
    mirror = Mirror(redis_url) if redis_url is not None else None
    try:
        trace = _execute(scenario, seed, budgets, lambda walk: _follow(walk, wanted), mirror)
    finally:
        if mirror is not None:
            mirror.close()
    return trace


def run(scenario: Scenario, *, seed: int = 0, polls: int = 3, faults: Mapping[float, str] | None = None) -> Trace:
    """Execute one schedule drawn at random; time passes only when no worker can step.

    Parameters
    ----------
    scenario: builds the world.
    seed: another seed draws another schedule, and other random values in the workers.
    polls: after how many unchanged rounds a polling worker is left alone, as in `explore`.
    faults: what goes wrong, by the seconds after which it does: `{60: "signal:A", 90: "crash:A crash:B"}`. The clock
        stops at deadlines only, so that a fault comes at the first one that is not too early; what is not possible
        then, since the worker has ended for example, is left out. Without it, nothing goes wrong.
    """
    chance = random.Random(f"{seed}:schedule")
    plan = [(time, choice) for time, words in sorted((faults or {}).items()) for choice in Schedule.parse(words)]
    for _, choice in plan:
        if not choice.is_fault:
            raise ScheduleError(f"`{choice}` is no fault; steps and the clock are drawn at random")
    most, failovers = len(plan), sum(choice.kind == "failover" for _, choice in plan)
    budgets = Budgets(most, most, None if most else 0, 0, polls, most, failovers)
    return _execute(scenario, seed, budgets, lambda walk: _draw(walk, chance, deque(plan)))


def _draw(walk: Walk, chance: random.Random, plan: deque[tuple[float, Choice]]) -> Iterable[int]:
    """The faults that are due, and what chance chooses between them."""
    engine = walk.engine
    while len(walk.events) < MOST_STEPS:
        due = plan.popleft()[1] if plan and plan[0][0] <= walk.now else None
        going_on = [code for code in walk.enabled if not engine.codes.is_fault(code)]
        if due is not None:
            yield from (code for code in walk.enabled if engine.choice(walk.state, code) == due)
        elif going_on:
            yield chance.choice(going_on)
        else:
            return


def _execute(
    scenario: Scenario,
    seed: int,
    budgets: Budgets,
    choose: Callable[[Walk], Iterable[int]],
    mirror: Mirror | None = None,
) -> Trace:
    with intercepted():
        engine = Engine(scenario, budgets, seed=seed)
        try:
            walk = Walk(engine, mirror)
            for code in choose(walk):
                walk.take(code)
            engine.check_python_state()
            return replace(walk.trace(), origin=(scenario, seed, budgets.polls))
        finally:
            engine.close(collect=False)


def _follow(walk: Walk, schedule: Schedule) -> Iterable[int]:
    engine = walk.engine
    for place, choice in enumerate(schedule, 1):
        if choice.process is not None and choice.process not in engine.names:
            known = ", ".join(engine.names)
            raise ScheduleError(f"choice {place}, `{choice}`: there is no worker {choice.process}; there are {known}")
        for code in walk.enabled:
            if engine.choice(walk.state, code) == choice:
                yield code
                break
        else:
            raise ScheduleError(_why_not(walk, place, schedule))


def _why_not(walk: Walk, place: int, schedule: Schedule) -> str:
    engine, choice = walk.engine, schedule[place - 1]
    enabled = [f"`{engine.choice(walk.state, code)}`" for code in walk.enabled]
    if not enabled:
        extra = len(schedule) - place + 1
        return f"the execution is over after {place - 1} choices; the schedule has {extra} too many, from `{choice}` on"
    return f"choice {place}, `{choice}`, is not possible: {why_not(walk, choice)}. Possible: {', '.join(enabled)}"


def why_not(walk: Walk, choice: Choice) -> str:
    """Why a choice that is not enabled is not, in a few words."""
    if choice.process is not None and choice.process not in walk.engine.names:
        return f"there is no worker {choice.process}; there are {', '.join(walk.engine.names)}"
    if choice.worker is not None:
        return f"{choice.worker} {_why_not_it(walk, choice)}"
    return "there is no deadline to go to, or a spared worker must step first"


def _why_not_it(walk: Walk, choice: Choice) -> str:
    """Why a worker, or a thread of it, cannot do what a schedule says."""
    engine = walk.engine
    worker = engine.names.index(choice.process or "")
    number = engine.number_of(walk.state, worker)
    if number < 0:
        return {FINISHED: "has returned", DEAD: "was killed"}.get(number, "raised an exception and is gone")
    pending = {
        engine.name_of(walk.state, worker, pending.actor): pending
        for pending in engine.machines[worker].pending[number]
    }.get(choice.worker or "")
    if pending is None:
        return "is no thread that runs"
    if engine.plans[worker].spared and choice.is_fault:
        return "is spared, so no fault hits it"
    if choice.kind == "signal":
        return "was signalled before, or the scenario does not say `signals=1` for it"
    if choice.kind == "jump":
        return "has a clock that jumped before, or the scenario says no `jump=` for it"
    if pending.idle:
        return "polls, and would learn nothing new"
    if pending.left > 0:
        return f"waits for another {in_seconds(pending.left / 1e6)}"
    return "waits for what only another can bring" if pending.left < 0 else "is not enabled"
