"""`sample`: how often schedules that nobody chose break a property. It never says `holds`: it has not seen them all."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import ScenarioError
from labkit.execution import MOST_STEPS
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.schedule import Schedule
from labkit.search.pct import Priorities
from labkit.stores.clock import ClockWasRead

# Picks one of the enabled choices.
Picker = Callable[[Engine, State, list[int]], int]


@dataclass(frozen=True)
class Sample:
    """What a number of random executions showed.

    Parameters
    ----------
    executions: how many there were.
    hits: for each violated property, how many of them violated it.
    schedules: for each violated property, the first schedule that did, if it is known.
    strategy: how the schedules were drawn.
    skipped_polls: workers that were left polling although they might have given up.
    """

    executions: int
    hits: Mapping[str, int]
    schedules: Mapping[str, Schedule]
    strategy: str
    skipped_polls: tuple[str, ...] = ()

    def rate(self, name: str) -> float:
        """The share of executions that violated a property, from 0 to 1."""
        return self.hits.get(name, 0) / self.executions

    def interval(self, name: str, confidence: float = 0.95) -> tuple[float, float]:
        """Where the true share lies with this confidence."""
        return interval_of_share(self.hits.get(name, 0), self.executions, confidence)

    def __repr__(self) -> str:
        head = f"{self.executions:,} executions ({self.strategy})"
        if self.skipped_polls:
            head += f", some cut short because {' and '.join(self.skipped_polls)} polled without news (raise `polls`)"
        if not self.hits:
            _, most = self.interval("")
            return f"{head}: no violation seen; at 95 % confidence fewer than {most:.2%} of such executions have one."
        lines = [f"{head}:"]
        for name, count in self.hits.items():
            low, high = self.interval(name)
            lines.append(
                f"  {name!r} violated in {count:,}: {self.rate(name):.2%} (95 % interval {low:.2%} to {high:.2%})"
            )
            if name in self.schedules:  # a run by real processes has none
                lines.append(f'    for example by "{self.schedules[name]}"')
        return "\n".join(lines)


def interval_of_share(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Where a true share lies, with this confidence, when so many trials had so many hits.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
    """
    z, rate = NormalDist().inv_cdf((1 + confidence) / 2), hits / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def sample(
    scenario: Scenario,
    executions: int = 1_000,
    *,
    strategy: str = "random",
    crashes: int = 0,
    lost_replies: int = 0,
    signals: int | None = 0,
    pauses: int | None = 0,
    polls: int = 3,
    jumps: int = 0,
    failovers: int = 0,
    seed: int = 0,
) -> Sample:
    """Execute schedules drawn at random, and count which properties they violate.

    Parameters
    ----------
    scenario: builds the world.
    executions: how many schedules to draw.
    strategy: `random` draws each choice evenly among the enabled ones, which tells how lucky an honest test would
        be; `pct` draws priorities instead, which finds rare orders far more often.
    crashes, lost_replies, signals, pauses, polls, jumps, failovers: as for `explore`; within them, faults are drawn
        like steps.
    seed: another seed draws other schedules.
    """
    if strategy not in ("random", "pct"):
        raise ScenarioError(f"strategy is 'random' or 'pct', not {strategy!r}")
    if not isinstance(executions, int) or executions < 1:
        raise ScenarioError(f"executions is a number, 1 or more, not {executions!r}")
    budgets = Budgets(crashes, lost_replies, signals, pauses, polls, jumps, failovers)
    with intercepted():
        try:
            return _sample(scenario, budgets, executions, strategy, seed, absolute=False)
        except ClockWasRead:
            return _sample(scenario, budgets, executions, strategy, seed, absolute=True)


def _sample(scenario: Scenario, budgets: Budgets, executions: int, strategy: str, seed: int, absolute: bool) -> Sample:
    engine = Engine(scenario, budgets, seed=seed, absolute=absolute)
    hits: dict[str, int] = {}
    schedules: dict[str, Schedule] = {}
    longest = 1
    try:
        for number in range(executions):
            chance = random.Random(f"{seed}:{number}")
            pick = Priorities(engine, chance, longest) if strategy == "pct" else _evenly(chance)
            codes, broken = _one(engine, pick)
            longest = max(longest, len(codes))
            for name in broken:
                hits[name] = hits.get(name, 0) + 1
                schedules.setdefault(name, engine.schedule(codes[: broken[name]]))
        engine.check_python_state()
    finally:
        engine.close()
    skipped = tuple(engine.skipped_polls())
    order = [prop.name for prop in engine.properties if prop.name in hits]
    return Sample(executions, {name: hits[name] for name in order}, schedules, strategy, skipped)


def _evenly(chance: random.Random) -> Picker:
    return lambda engine, state, enabled: chance.choice(enabled)


def _one(engine: Engine, pick: Picker) -> tuple[list[int], dict[str, int]]:
    """One execution: its choices, and after how many of them each violated property was first violated."""
    state, codes = engine.start, list[int]()
    broken = dict.fromkeys(engine.judge.broken(state, end=False), 0)
    while len(codes) < MOST_STEPS:
        enabled = engine.enabled(state)
        if engine.is_end(enabled):
            for name in engine.judge.broken(state, end=True) if not engine.is_cut(state) else ():
                broken.setdefault(name, len(codes))
            break
        code = pick(engine, state, enabled)
        before, state = state, engine.take(state, code).state
        codes.append(code)
        for name in engine.judge.broken(state, end=False) + engine.judge.broken_by(before, state):
            broken.setdefault(name, len(codes))
    return codes, broken
