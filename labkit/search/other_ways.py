"""Other shortest ways to a violation than the one that is shown: the same length, another order of steps.

The ways of one length form a graph without cycles whose edges lie on shortest ways. What cannot reach the violation is
cut off first, from the end; then every way that is walked, depth first, leads there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from labkit.engine import Engine, State
from labkit.search.breadth_first import Target
from labkit.search.looking import text_of

MOST_TRIED = 200  # ways for each that is asked for; many differ only in what nobody sees
Step = tuple[int, State, bool]  # the number of a choice, the state after it, and whether it ends in the violation
Signature = tuple[tuple[str, str], ...]


def other_ways(
    engine: Engine, depths: dict[State, int], length: int, targets: set[Target], shown: list[int], count: int
) -> list[list[int]]:
    """Up to `count` more ways to one of the targets, each as the numbers of its choices.

    Two ways are different when somebody's commands come in another order; ways that differ only in which of several
    interchangeable workers is which are one.

    Parameters
    ----------
    engine, depths, length, targets: as for `shortest_way`.
    shown: the way that is shown already.
    count: how many more to find.
    """
    ways = _Ways(engine, depths, length, targets)
    known, found = {signature(engine, shown)}, []
    for codes in islice(ways.walk(), MOST_TRIED * count):
        name = signature(engine, codes)
        if name not in known:
            known.add(name)
            found.append(codes)
            if len(found) == count:
                break
    return found


def signature(engine: Engine, codes: list[int]) -> Signature:
    """Who does what, in order; interchangeable workers are named by their first appearance."""
    state, parts = engine.start, []
    names: dict[int, str] = {}
    for code in codes:
        move = engine.take(state, code)
        if move.cost:
            choice = engine.choice(state, code)
            if choice.process is None:
                parts.append((choice.kind, ""))
            else:
                worker = engine.names.index(choice.process)
                group = engine.symmetry.members(worker)
                place = len({other for other in names if other in group})
                name = names.setdefault(worker, f"{group[0]}.{place}")
                thread = (choice.worker or "").partition("/")[2]
                command = text_of(engine, state, code) if choice.kind == "step" else ""
                parts.append((f"{choice.kind}:{name}/{thread}", command))
        state = move.state
    return tuple(parts)


class _Ways:
    """The shortest ways to some targets."""

    def __init__(self, engine: Engine, depths: dict[State, int], length: int, targets: set[Target]) -> None:
        self._engine, self._depths, self._length, self._targets = engine, depths, length, targets
        self._useful: dict[State, bool] = {}
        self._steps: dict[State, list[Step]] = {}

    def walk(self) -> Iterator[list[int]]:
        """All ways, one after another; whoever stepped last goes on first, so that switches are few."""
        stack: list[tuple[State, list[int]]] = [(self._engine.start, [])]
        while stack:
            state, codes = stack.pop()
            if codes and self._is_target(state):
                yield codes
                continue
            last = codes[-1] if codes else None
            ahead = sorted(self._steps_from(state), key=lambda step: (step[0] != last, step[0]), reverse=True)
            for code, after, breaks in ahead:
                if breaks:
                    yield [*codes, code]
                elif self._leads_there(after):
                    stack.append((after, [*codes, code]))

    def _is_target(self, state: State) -> bool:
        seen = self._engine.symmetry.canonical(state)
        return self._depths.get(seen) == self._length and (seen, seen) in self._targets

    def _steps_from(self, state: State) -> list[Step]:
        """What leads on along shortest ways."""
        if state not in self._steps:
            canonical, depths = self._engine.symmetry.canonical, self._depths
            before = canonical(state)
            steps = []
            for code, cost, after in self._engine.moves(state):
                ahead, seen = depths[before] + cost, canonical(after)
                breaks = ahead == self._length and after != state and (before, seen) in self._targets
                if breaks or (ahead <= self._length and depths.get(seen) == ahead):
                    steps.append((code, after, breaks))
            self._steps[state] = steps
        return self._steps[state]

    def _leads_there(self, state: State) -> bool:
        """Whether a target can be reached; answered without recursion, since ways may be long."""
        stack = [state]
        while stack:
            here = stack[-1]
            if here in self._useful:
                stack.pop()
                continue
            if self._is_target(here) or any(breaks for _, _, breaks in self._steps_from(here)):
                self._useful[here] = True
                continue
            ahead = [after for _, after, _ in self._steps_from(here)]
            if any(self._useful.get(after) for after in ahead):
                self._useful[here] = True
                continue
            unknown = [after for after in ahead if after not in self._useful]
            if unknown:
                stack.append(unknown[0])
            else:
                self._useful[here] = False
        return self._useful[state]
