"""Every schedule, breadth first, with slices of each layer visited by an executor's processes.

Only the visiting is spread: to find what is enabled in a state, what each choice leads to, and what the properties
say. Which state is new is decided here, slice by slice, in the order in which a search alone comes to them. So the
verdict is the same whoever visits, and in whatever order they answer. A slice in which a limit may be reached, or in
which something goes wrong, is visited here, one state after the other, so that it stops where a search alone would.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from itertools import islice

from labkit.engine import Engine, State
from labkit.errors import LabError, Nondeterminism
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.portable_scenario import pack_scenario
from labkit.portable_state import pack, unpack
from labkit.search.breadth_first import BreadthFirst, Found
from labkit.search.limits import Limits
from labkit.search.slices import Answer, Errand, searched_here, visit_slice

SMALLEST_SLICE, LARGEST_SLICE = 250, 4_000  # states; to send fewer costs more than to visit them here
SLICES_OF_A_LAYER = 8  # fewer and larger ones would find fewer states twice, and keep fewer processes busy
MOST_UNDER_WAY = 256  # slices: enough for any executor, and no more than memory holds


class Spread(BreadthFirst):
    """One search, spread over an executor.

    Parameters
    ----------
    engine: the scenario with its budgets.
    limits: what it may use; memory is that of this process.
    executor: runs `visit_slice`.
    scenario: what the engine was made of; `ScenarioError` when it cannot be sent.
    """

    def __init__(self, engine: Engine, limits: Limits, executor: Executor, scenario: Scenario) -> None:
        super().__init__(engine, limits)
        self._executor, self._scenario = executor, scenario
        self._errand = Errand(
            search=uuid.uuid4().hex,
            scenario=pack_scenario(scenario),
            budgets=engine.budgets,
            seed=engine.world.seed,
            absolute=engine.world.absolute,
            apart=engine.symmetry.apart,
            start=pack(engine, [engine.start]),
            states=pack(engine),
            known=frozenset(),
        )

    def run(self) -> Found:
        searched_here[self._errand.search] = self._scenario
        try:
            return super().run()
        finally:
            del searched_here[self._errand.search]

    def visit_layer(self, depth: int) -> None:
        done = 0
        while done < len(self.layer) and self.found.stopped is None:  # what costs nothing makes the layer grow
            states = [state for state in islice(self.layer, done, None) if self.found.depths[state] == depth]
            done = len(self.layer)
            if len(states) < 2 * SMALLEST_SLICE:
                self.visit(states, depth)
            else:
                self._share_out(states, depth)

    def visit(self, states: Iterable[State], depth: int) -> None:
        with intercepted():
            super().visit(states, depth)

    def _share_out(self, states: list[State], depth: int) -> None:
        size = min(max(len(states) // SLICES_OF_A_LAYER, SMALLEST_SLICE), LARGEST_SLICE)
        slices = (states[first : first + size] for first in range(0, len(states), size))
        known = frozenset(name for name, (shortest, _) in self.found.targets.items() if shortest < depth)
        under_way: deque[tuple[list[State], Future[Answer | None]]] = deque()
        try:
            while self.found.stopped is None:
                if part := next(slices, None):
                    errand = self._errand._replace(states=pack(self.engine, part), known=known)
                    under_way.append((part, self._executor.submit(visit_slice, errand)))
                elif not under_way:
                    return
                if not part or len(under_way) == MOST_UNDER_WAY:
                    self._take_in(*under_way[0], depth)
                    under_way.popleft()
        finally:
            for _, future in under_way:
                future.cancel()

    def _take_in(self, part: list[State], future: Future[Answer | None], depth: int) -> None:
        """Add what a slice shows to what was found, or visit it here."""
        found, depths, limits = self.found, self.found.depths, self.limits
        try:
            answer = future.result(timeout=limits.seconds_left())
        except TimeoutError:
            if limits.seconds_left() != 0:
                raise
            future.cancel()
            found.stopped = limits.reached(len(depths), 0, 0)
            return
        except LabError:
            self.visit(part, depth)  # raises the same, unless it comes from how that process differs from this one
            if found.stopped is None:
                raise
            return
        if answer is None or limits.reached(len(depths) + answer.states.lengths[0], 1, answer.deepest):
            self.visit(part, depth)
            return
        self._see_errors(part, set().union(*(raised for _, raised, _ in answer.told)))
        for machine, (returned, _, skipped) in zip(self.engine.machines, answer.told, strict=True):
            machine.returned |= returned
            machine.skipped_polls |= skipped
        new, free, ends, before, after = unpack(self.engine, answer.states)
        self.engine.world.asked |= answer.asked
        for (name, cost), target in zip(answer.violations, zip(before, after, strict=True), strict=True):
            found.violated((name,), depth + cost, target)
        found.ends += ends
        found.transitions += answer.transitions
        for cost, states, layer in ((0, free, self.layer), (1, new, self.next_layer)):
            nearer = [state for state in states if depths.get(state, depth + 2) > depth + cost]
            depths.update(dict.fromkeys(nearer, depth + cost))
            layer += nearer
        self.visited += len(part)
        self.progress.show(len(depths), len(depths) - self.visited)
        found.stopped = limits.reached(len(depths), 0, self.engine.deepest())

    def _see_errors(self, part: list[State], names: set[str]) -> None:
        """Let actors raise here too that raised for the first time: the first error of each is shown, with its line."""
        with intercepted() if names - self.engine.raised().keys() else nullcontext():
            for state in part:
                if names <= self.engine.raised().keys():
                    return
                self.engine.moves(state)
        who = " and ".join(sorted(names - self.engine.raised().keys()))
        if who:
            raise Nondeterminism(f"{who} raised an exception in a process of the executor, and does not here")
