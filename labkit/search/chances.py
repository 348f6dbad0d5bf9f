"""How likely a violation is when chance decides, exactly: after each pair of switch points of two workers.

`sample` estimates the same by drawing schedules; here every state is visited once, and the chances are added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import ScenarioError
from labkit.lab import Scenario
from labkit.search.looking import asked_for, breaks, ends_badly, look_at, text_of, two_workers_of

MOST_STATES = 200_000


@dataclass(frozen=True)
class SwitchGrid:
    """The chance of a violation for each pair of switch points.

    Parameters
    ----------
    workers: the names of the two workers: who begins, and who goes on.
    property: what is violated.
    chances: by the steps that the first takes before the second begins, and those that the second takes before chance
        decides: the share of violations, 0 to 1. Pairs that no schedule has are left out.
    overall: the share when chance decides from the start.
    steps: for each worker, the texts of its steps: of the first from the start, of the second where it got furthest.
    """

    workers: tuple[str, str]
    property: str
    chances: Mapping[tuple[int, int], float]
    overall: float
    steps: tuple[tuple[str, ...], tuple[str, ...]]


def switch_grid(
    scenario: Scenario,
    property: str | None = None,
    *,
    clock: bool = False,
    pauses: int = 0,
    polls: int = 3,
    seed: int = 0,
) -> SwitchGrid:
    """The chances of every pair of switch points; each enabled choice is as likely as any other, as in `sample`.

    Parameters
    ----------
    scenario: builds the world.
    property: the one that is looked at; None for the first.
    clock: whether time passes, up to the next deadline, before the second worker begins: the first is paused.
    pauses, polls, seed: as for `explore`.

    Raises `ScenarioError` when there are not two workers, no property, or too many states.
    """

    def look(engine: Engine) -> SwitchGrid:
        workers = two_workers_of(engine, "a heatmap")
        name = property or next((prop.name for prop in engine.properties), "")
        chances = _Chances(engine, asked_for(engine, name))
        grid: dict[tuple[int, int], float] = {}
        firsts: list[str] = []
        seconds: list[str] = []
        for i, (state, broken, text) in enumerate(chances.alone(engine.start, 0)):
            firsts.append(text)
            if clock:
                if engine.clock_code not in engine.enabled(state):
                    continue
                before, state = state, engine.take(state, engine.clock_code).state
                broken = broken or chances.breaks(before, state)
            texts = []
            for j, (after, worse, text) in enumerate(chances.alone(state, 1)):
                texts.append(text)
                grid[i, j] = 1.0 if broken or worse else chances.of(after)
            seconds = max(seconds, texts, key=len)
        return SwitchGrid(workers, name, grid, chances.of(engine.start), (tuple(firsts[1:]), tuple(seconds[1:])))

    return look_at(scenario, Budgets(signals=0, pauses=pauses, polls=polls), seed, look)


class _Chances:
    """The chances of one scenario.

    Parameters
    ----------
    engine: the scenario.
    names: the properties that are looked at.
    """

    def __init__(self, engine: Engine, names: Collection[str]) -> None:
        self._engine, self._names = engine, names
        self._known: dict[State, float] = {}

    def breaks(self, before: State, after: State) -> bool:
        """Whether a choice breaks a property, or leads to an end that does."""
        return breaks(self._engine, self._names, before, after) or ends_badly(self._engine, self._names, after)

    def alone(self, state: State, worker: int) -> Iterator[tuple[State, bool, str]]:
        """Each state while one worker runs, whether a property was violated on the way, and the step that led there.

        It ends when the worker has ended, or waits for the other; time passes where nobody can step.
        """
        engine, broken, text = self._engine, False, ""
        while True:
            yield state, broken, text
            enabled = engine.enabled(state)
            while enabled == [engine.clock_code]:
                before, state = state, engine.take(state, engine.clock_code).state
                broken = broken or self.breaks(before, state)
                enabled = engine.enabled(state)
            own = [code for code in enabled if engine.codes.is_step(code) and engine.codes.meaning(code)[1] == worker]
            if not own:
                return
            text = text_of(engine, state, own[0])
            before, state = state, engine.take(state, own[0]).state
            broken = broken or self.breaks(before, state)

    def of(self, state: State) -> float:
        """The chance that chance breaks a property from a state on, when none has been broken before."""
        stack, begun = [state], set[State]()
        while stack:
            top = stack[-1]
            missing = [] if top in self._known else [each for each in self._followers(top) if each not in self._known]
            if not missing:
                self._known.setdefault(stack.pop(), self._sum(top))
            elif top in begun:
                raise ScenarioError("some schedule goes round in circles, so that its end has no chance to be told")
            elif len(self._known) > MOST_STATES:
                raise ScenarioError(f"a heatmap of more than {MOST_STATES:,} states; take a smaller scenario")
            else:
                begun.add(top)
                stack += missing
        return self._known[state]

    def _followers(self, state: State) -> list[State]:
        return [move.state for move in self._engine.moves(state) if not self.breaks(state, move.state)]

    def _sum(self, state: State) -> float:
        if state in self._known:
            return self._known[state]
        moves = self._engine.moves(state)
        if any(name in self._names for name in self._engine.judge.broken(state, end=False)):
            return 1.0
        broken = [self.breaks(state, move.state) for move in moves]
        shares = (1.0 if bad else self._known[move.state] for move, bad in zip(moves, broken, strict=True))
        return sum(shares) / len(moves) if moves else 0.0
