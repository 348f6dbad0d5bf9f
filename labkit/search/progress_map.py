"""What can still happen after so many steps of one worker and so many of another: the data of a progress graph.

Source: E. G. Coffman, M. J. Elphick, A. Shoshani, "System deadlocks", ACM Computing Surveys 3 (1971), who credit the
picture to E. W. Dijkstra. There, a point says everything; here, what a worker does depends on the replies it had,
so that several states may belong to one point.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import ScenarioError
from labkit.lab import Scenario
from labkit.search.looking import asked_for, breaks, ends_badly, look_at, text_of, two_workers_of

Point = tuple[int, int]
OPEN, DEPENDS, DOOMED, BROKEN = "open", "depends", "doomed", "broken"
MOST_NODES = 50_000


@dataclass(frozen=True)
class ProgressMap:
    """Points and what is to be said of each.

    Parameters
    ----------
    workers: the names of the two workers.
    points: by the numbers of steps that both have taken: `broken` (however one comes here, a property has been
        violated), `doomed` (it has been, or nothing can prevent it any more), `open` (neither), or `depends` (on the
        way by which one comes). Points that no schedule reaches are left out.
    steps: for each worker, the text of each of its steps; of several, the one that most states ask for.
    """

    workers: tuple[str, str]
    points: Mapping[Point, str]
    steps: tuple[tuple[str, ...], tuple[str, ...]]


def progress_map(
    scenario: Scenario, property: str | None = None, *, pauses: int | None = 0, polls: int = 3, seed: int = 0
) -> ProgressMap:
    """Search every schedule of two workers, without faults.

    Parameters
    ----------
    scenario: builds the world.
    property: the one that the map is about; None for all of them.
    pauses, polls, seed: as for `explore`.

    Raises `ScenarioError` when there are not two workers, or too many states.
    """

    def look(engine: Engine) -> ProgressMap:
        workers = two_workers_of(engine, "a progress graph")
        nodes, texts = _search(engine, asked_for(engine, property))
        doomed = _doomed(nodes)
        fates: dict[Point, set[str]] = {}
        for node in nodes:
            fate = BROKEN if node.broken else DOOMED if node in doomed else OPEN
            fates.setdefault(node.point, set()).add(fate)
        return ProgressMap(workers, {point: _together(found) for point, found in sorted(fates.items())}, _steps(texts))

    return look_at(scenario, Budgets(signals=0, pauses=pauses, polls=polls), seed, look)


class _Node(NamedTuple):
    """A state, the steps that both workers took on the way, and whether a property was violated on it."""

    state: State
    point: Point
    broken: bool


_Graph = dict[_Node, list[_Node]]
_Texts = dict[tuple[int, int], Counter[str]]


def _search(engine: Engine, names: Collection[str]) -> tuple[_Graph, _Texts]:
    """Every node with those that follow, and how often each worker asks for what in its n-th step."""
    start = _Node(engine.start, (0, 0), any(name in names for name in engine.judge.broken(engine.start, end=False)))
    nodes: _Graph = {}
    texts: _Texts = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        if node in nodes:
            continue
        if len(nodes) == MOST_NODES:
            raise ScenarioError(f"a progress graph of more than {MOST_NODES:,} states; take a smaller scenario")
        nodes[node] = [_after(engine, names, node, code, texts) for code in engine.enabled(node.state)]
        waiting.extend(nodes[node])
    return nodes, texts


def _after(engine: Engine, names: Collection[str], node: _Node, code: int, texts: _Texts) -> _Node:
    state, (one, other) = engine.take(node.state, code).state, node.point
    if engine.codes.is_step(code):
        _, worker, _ = engine.codes.meaning(code)
        one, other = one + (worker == 0), other + (worker == 1)
        texts.setdefault((worker, (one, other)[worker]), Counter())[text_of(engine, node.state, code)] += 1
    broken = node.broken or breaks(engine, names, node.state, state) or ends_badly(engine, names, state)
    return _Node(state, (one, other), broken)


def _doomed(nodes: _Graph) -> set[_Node]:
    """The nodes from which every way leads to a violation: the least set that has all those before it."""
    before: dict[_Node, list[_Node]] = {}
    for node, after in nodes.items():
        for each in set(after):
            before.setdefault(each, []).append(node)
    left = {node: len(set(after)) for node, after in nodes.items()}
    waiting = [node for node in nodes if node.broken]
    doomed = set(waiting)
    while waiting:
        for node in before.get(waiting.pop(), ()):
            left[node] -= 1
            if not left[node] and node not in doomed:
                doomed.add(node)
                waiting.append(node)
    return doomed


def _together(fates: set[str]) -> str:
    """What is to be said of a point, from what is to be said of each state there."""
    if fates == {BROKEN}:
        return BROKEN
    if fates <= {BROKEN, DOOMED}:
        return DOOMED
    return OPEN if fates == {OPEN} else DEPENDS


def _steps(texts: _Texts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    one, other = (
        tuple(texts[worker, number].most_common(1)[0][0] for asked, number in sorted(texts) if asked == worker)
        for worker in (0, 1)
    )
    return one, other
