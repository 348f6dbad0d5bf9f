"""Among the shortest ways to a violation, one with the fewest switches between workers.

Dijkstra's algorithm over pairs of a state and the worker that stepped last, ordered by (length, switches) and
kept to edges that lie on shortest ways; ties go to the choice with the smaller number, so that the answer is
always the same. It walks the states as they are, so that the answer is also the same when the search took workers
for one another: of two ways that differ only in which worker is which, the one that was found first goes on.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

from labkit.engine import Engine, State
from labkit.search.breadth_first import Target

NOBODY = -1


class _Way(NamedTuple):
    """A way to a state: its length and switches, its place in the order of discovery, and how it got there."""

    length: int
    switches: int
    order: int
    state: State
    last: int
    code: int
    before: _Way | None
    breaks: bool

    def codes(self) -> list[int]:
        codes, way = [], self
        while way.before is not None:
            codes.append(way.code)
            way = way.before
        return codes[::-1]


def shortest_way(engine: Engine, depths: dict[State, int], length: int, targets: set[Target]) -> list[int]:
    """The numbers of the choices that lead to one of the targets.

    Parameters
    ----------
    engine: the one that was searched.
    depths: every state seen, with the length of the shortest way to it.
    length: the length of the shortest way to the targets.
    targets: where the violation happens.
    """
    order = count()
    heap = [_Way(0, 0, next(order), engine.start, NOBODY, NOBODY, None, False)]
    done: set[object] = set()
    canonical = engine.symmetry.canonical
    while heap:
        way = heapq.heappop(heap)
        state = canonical(way.state)
        if way.breaks or (way.length == length and (state, state) in targets):
            return way.codes()
        last = way.last if way.last == NOBODY else _who(engine, way)
        if (state, last) in done:
            continue
        done.add((state, last))
        for code, cost, after in engine.moves(way.state):
            ahead = way.length + cost
            seen = canonical(after)
            breaks = ahead == length and after != way.state and (state, seen) in targets
            if breaks or (ahead <= length and depths.get(seen) == ahead):
                actor = code if engine.codes.is_step(code) else way.last
                switches = way.switches + (way.last not in (NOBODY, actor))
                heapq.heappush(heap, _Way(ahead, switches, next(order), after, actor, code, way, breaks))
    raise AssertionError("a violation that was found must have a way to it")


def _who(engine: Engine, way: _Way) -> object:
    """Who stepped last: the actor of a worker, or of any that is taken for it and stands at the same moment."""
    _, worker, actor = engine.codes.meaning(way.last)
    return engine.symmetry.members(worker)[0], engine.number_of(way.state, worker), actor
