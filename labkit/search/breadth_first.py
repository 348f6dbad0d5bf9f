"""Every schedule within the budgets, breadth first, so that the first violation found is a shortest one.

States are visited in the order of the length of the shortest way to them. Steps that do not count (sleeps,
clock reads) stay within their layer, as in a breadth-first search with edges of length 0 and 1. Merging equal
states is exact: a state is everything that can matter for what comes after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from labkit.engine import Engine, Move, State
from labkit.search.limits import Limits
from labkit.search.progress import Progress

# Two states: a step broke the property. The same state twice: it does not hold there.
Target = tuple[State, State]


@dataclass
class Found:
    """What a search found.

    Parameters
    ----------
    depths: every state that was seen, with the length of the shortest way to it.
    targets: for each violated property, the length of its shortest violation and where it happens.
    ends: the states in which nothing but faults can still happen.
    transitions: how many choices were followed.
    stopped: why the search was cut short, or None when it was not.
    unvisited: how many states were seen but not followed up.
    """

    depths: dict[State, int] = field(default_factory=dict)
    targets: dict[str, tuple[int, set[Target]]] = field(default_factory=dict)
    ends: list[State] = field(default_factory=list)
    transitions: int = 0
    stopped: str | None = None
    unvisited: int = 0

    def violated(self, names: tuple[str, ...], depth: int, target: Target) -> None:
        """Note violations; only the shortest of each property are kept."""
        for name in names:
            shortest, places = self.targets.setdefault(name, (depth, set()))
            if depth == shortest:
                places.add(target)
            elif depth < shortest:
                self.targets[name] = (depth, {target})


class BreadthFirst:
    """One search.

    Parameters
    ----------
    engine: the scenario with its budgets.
    limits: what it may use.
    """

    def __init__(self, engine: Engine, limits: Limits | None = None) -> None:
        self.engine, self.limits = engine, limits or Limits()
        self.progress = Progress(self.limits.states)
        self.found = Found()
        self.layer: list[State] = [engine.start]
        self.next_layer: list[State] = []
        self.visited = 0

    def run(self) -> Found:
        """Search until every state was visited, every property is violated, or a limit is reached."""
        found, depth = self.found, 0
        found.depths[self.engine.start] = 0  # all workers stand at their beginning, so no other state is as good
        try:
            while self.layer and found.stopped is None:
                self.visit_layer(depth)
                if len(found.targets) == len(self.engine.properties) > 0:
                    break  # the layer is complete, so nothing shorter is left to find
                self.layer, self.next_layer, depth = self.next_layer, [], depth + 1
        except KeyboardInterrupt:
            found.stopped = "interrupted"
        finally:
            self.progress.close()
        found.unvisited = len(found.depths) - self.visited
        return found

    def visit_layer(self, depth: int) -> None:
        """Visit every state of the layer."""
        self.visit(self.layer, depth)  # grows while it is walked

    def visit(self, states: Iterable[State], depth: int) -> None:
        """Visit states of the layer: judge them, and put what they lead to into this layer or the next."""
        found = self.found
        depths, layer, symmetry = found.depths, self.layer, self.engine.symmetry
        for state in states:
            if depths[state] != depth:
                continue  # a shorter way was found since
            self.visited += 1
            moves = self.engine.moves(state)
            if symmetry.groups:
                moves = [Move(code, cost, symmetry.canonical(after)) for code, cost, after in moves]
            self._judge(state, moves, depth)
            found.transitions += len(moves)
            for _, cost, after in moves:
                known = depths.get(after)
                if known is None or known > depth + cost:
                    depths[after] = depth + cost
                    (self.next_layer if cost else layer).append(after)
            if self._limit_reached():
                return

    def _judge(self, state: State, moves: list[Move], depth: int) -> None:
        engine, found = self.engine, self.found
        end = engine.is_end(move.code for move in moves) and not engine.is_cut(state)
        if end:
            found.ends.append(state)
        broken = engine.judge.broken(state, end)
        if broken:
            found.violated(broken, depth, (state, state))
        if engine.judge.remembers:
            for move in moves:
                found.violated(engine.judge.broken_by(state, move.state), depth + move.cost, (state, move.state))

    def _limit_reached(self) -> bool:
        found = self.found
        if self.visited % 4096 == 0:
            self.progress.show(len(found.depths), len(found.depths) - self.visited)
        found.stopped = self.limits.reached(len(found.depths), self.visited, self.engine.deepest())
        return found.stopped is not None
