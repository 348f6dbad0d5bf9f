"""Every state of a scenario and every choice between them, as plain data: for a picture of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import ScenarioError
from labkit.lab import Scenario
from labkit.schedule import Choice
from labkit.search.looking import look_at, text_of

MOST_COUNTED = 100_000  # states, before counting them is given up


class Node(NamedTuple):
    """A state.

    Parameters
    ----------
    layer: the number of choices on the shortest way to it.
    broken: the names of the properties that do not hold in it, those at the end included if it is one.
    is_end: whether nothing but faults can happen in it.
    """

    layer: int
    broken: tuple[str, ...]
    is_end: bool


class Edge(NamedTuple):
    """A choice between two states.

    Parameters
    ----------
    before, after: the numbers of the two states.
    choice: the choice.
    text: what it does.
    broken: the names of the properties that the choice itself breaks: those that compare before and after.
    """

    before: int
    after: int
    choice: Choice
    text: str
    broken: tuple[str, ...]


@dataclass(frozen=True)
class StateSpace:
    """All states within some bounds.

    Parameters
    ----------
    workers: the workers' names.
    nodes: the states, in the order in which a breadth-first search finds them; the first is the start.
    edges: the choices, by the states that they start from.
    """

    workers: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def way(self, schedule: Iterable[Choice]) -> list[Edge]:
        """The edges that a schedule takes, as far as it stays within the bounds."""
        leading = {(edge.before, edge.choice): edge for edge in self.edges}
        place, way = 0, list[Edge]()
        for choice in schedule:
            edge = leading.get((place, choice))
            if edge is None:
                break
            way.append(edge)
            place = edge.after
        return way


def state_space(scenario: Scenario, *, most: int, seed: int = 0, **budgets: Any) -> StateSpace:
    """Every state within budgets that are named as for `explore`.

    Parameters
    ----------
    scenario: builds the world.
    most: how many states there may be.
    seed: what everything random in the workers depends on.
    budgets: `crashes`, `lost_replies`, `signals`, `pauses`, `polls`, `jumps`, `failovers`.

    Raises `ScenarioError`, which says how many states there are, when there are more.
    """

    def look(engine: Engine) -> StateSpace:
        layers = _reach(engine, most)
        numbers = {state: number for number, state in enumerate(layers)}
        nodes, edges = [], []
        for state, number in numbers.items():
            moves = engine.moves(state)
            is_end = engine.is_end(move.code for move in moves)
            nodes.append(Node(layers[state], engine.judge.broken(state, is_end and not engine.is_cut(state)), is_end))
            for move in moves:
                broken = engine.judge.broken_by(state, move.state)
                choice, text = engine.choice(state, move.code), text_of(engine, state, move.code)
                edges.append(Edge(number, numbers[move.state], choice, text, broken))
        return StateSpace(tuple(engine.names), tuple(nodes), tuple(edges))

    return look_at(scenario, Budgets(**budgets), seed, look)


def _reach(engine: Engine, most: int) -> dict[State, int]:
    """The states in breadth-first order, each with its layer."""
    layers = {engine.start: 0}
    waiting = [engine.start]
    for state in waiting:  # grows while it is walked
        for move in engine.moves(state):
            if move.state not in layers:
                layers[move.state] = layers[state] + 1
                waiting.append(move.state)
        if len(layers) > MOST_COUNTED:
            break
    if len(layers) > most:
        count = f"{len(layers):,}" if len(layers) <= MOST_COUNTED else f"more than {MOST_COUNTED:,}"
        raise ScenarioError(
            f"the scenario has {count} states within these bounds; a picture of more than {most} is not to be read. "
            "Draw it with fewer workers, shorter code or smaller budgets; `explore` searches it as it is."
        )
    return layers
