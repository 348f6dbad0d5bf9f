"""Opens a scenario to be looked at: for pictures, which show states and choices and decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import ScenarioError
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.properties import check_stated
from labkit.stores.clock import ClockWasRead

Seen = TypeVar("Seen")


def look_at(scenario: Scenario, budgets: Budgets, seed: int, look: Callable[[Engine], Seen]) -> Seen:
    """What a function sees in a scenario; the time belongs to its states when any step reads the clock."""
    with intercepted():
        try:
            return _look(scenario, budgets, seed, look, absolute=False)
        except ClockWasRead:
            return _look(scenario, budgets, seed, look, absolute=True)


def _look(scenario: Scenario, budgets: Budgets, seed: int, look: Callable[[Engine], Seen], absolute: bool) -> Seen:
    engine = Engine(scenario, budgets, seed=seed, absolute=absolute)
    try:
        seen = look(engine)
        engine.check_python_state()
        return seen
    finally:
        engine.close()


def two_workers_of(engine: Engine, what: str) -> tuple[str, str]:
    """The names of a scenario's two workers; `ScenarioError` when there are more or fewer."""
    names = tuple(engine.names)
    if len(names) != 2:
        raise ScenarioError(f"{what} has an axis for each of two workers; this scenario has {len(names)}")
    return names[0], names[1]


def asked_for(engine: Engine, name: str | None) -> frozenset[str]:
    """The names of the properties that a picture is about: all of them, or one."""
    known = [prop.name for prop in engine.properties]
    if not known:
        raise ScenarioError("the scenario states no property, so there is nothing to draw: add `lab.always(…)`")
    if name is None:
        return frozenset(known)
    check_stated(name, known)
    return frozenset([name])


def text_of(engine: Engine, state: State, code: int) -> str:
    """What a choice does, as one would write it."""
    if not engine.codes.is_step(code):
        return str(engine.choice(state, code))
    _, worker, actor = engine.codes.meaning(code)
    operation = engine.moment_of(state, worker).operation_of(actor)
    return engine.world.stores[engine.world.slots[operation.store]].describe(operation.request).text


def breaks(engine: Engine, names: Collection[str], before: State, after: State) -> bool:
    """Whether one of some properties does not hold after a choice, ends apart."""
    broken = engine.judge.broken(after, end=False) + engine.judge.broken_by(before, after)
    return any(name in names for name in broken)


def ends_badly(engine: Engine, names: Collection[str], state: State) -> bool:
    """Whether a state is an end at which one of some properties does not hold."""
    if not engine.is_end(engine.enabled(state)) or engine.is_cut(state):
        return False
    return any(name in names for name in engine.judge.broken(state, end=True))
