"""Every schedule within the budgets, breadth first, so that the first violation found is a shortest one.

States are visited in the order of the length of the shortest way to them. Steps that do not count (sleeps,
clock reads) stay within their layer, as in a breadth-first search with edges of length 0 and 1. Merging equal
states is exact: a state is everything that can matter for what comes after it.
"""

from __future__ import annotations

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
        self._engine, self._limits = engine, limits or Limits()
        self._progress = Progress(self._limits.states)
        self.found = Found()
        self._layer: list[State] = [engine.start]
        self._next_layer: list[State] = []
        self._visited = 0

    def run(self) -> Found:
        """Search until every state was visited, every property is violated, or a limit is reached."""
        found, depth = self.found, 0
        found.depths[self._engine.start] = 0
        try:
            while self._layer and found.stopped is None:
                self._visit_layer(depth)
                if len(found.targets) == len(self._engine.properties) > 0:
                    break  # the layer is complete, so nothing shorter is left to find
                self._layer, self._next_layer, depth = self._next_layer, [], depth + 1
        except KeyboardInterrupt:
            found.stopped = "interrupted"
        finally:
            self._progress.close()
        found.unvisited = len(found.depths) - self._visited
        return found

    def _visit_layer(self, depth: int) -> None:
        found = self.found
        depths, layer = found.depths, self._layer
        for state in layer:  # grows while it is walked
            if depths[state] != depth:
                continue  # a shorter way was found since
            self._visited += 1
            moves = self._engine.moves(state)
            self._judge(state, moves, depth)
            found.transitions += len(moves)
            for _, cost, after in moves:
                known = depths.get(after)
                if known is None or known > depth + cost:
                    depths[after] = depth + cost
                    (self._next_layer if cost else layer).append(after)
            if self._limit_reached():
                return

    def _judge(self, state: State, moves: list[Move], depth: int) -> None:
        engine, found = self._engine, self.found
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
        if self._visited % 4096 == 0:
            self._progress.show(len(found.depths), len(found.depths) - self._visited)
        found.stopped = self._limits.reached(len(found.depths), self._visited, self._engine.deepest())
        return found.stopped is not None
