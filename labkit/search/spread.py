"""Every schedule, breadth first, with slices of each layer visited by an executor's processes.

Only the visiting is spread: to find what is enabled in a state, what each choice leads to, and what the properties
say. Which state is new is decided here, slice by slice, in the order in which a search alone comes to them. So the
verdict is the same whoever visits, and in whatever order they answer. A slice in which a limit may be reached, or in
which something goes wrong, is visited here, one state after the other, so that it stops where a search alone would.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from itertools import islice
from typing import NamedTuple

from labkit.actor import Ending
from labkit.budgets import Budgets
from labkit.engine import Engine, State
from labkit.errors import LabError, Nondeterminism
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.portable_scenario import unpack_scenario
from labkit.portable_state import Parcel, pack, unpack
from labkit.search.breadth_first import BreadthFirst
from labkit.search.limits import Limits
from labkit.stores.clock import ClockWasRead

SMALLEST_SLICE, LARGEST_SLICE = 250, 4_000  # states; to send fewer costs more than to visit them here
SLICES_OF_A_LAYER = 8  # fewer and larger ones would find fewer states twice, and keep fewer processes busy
MOST_UNDER_WAY = 256  # slices: enough for any executor, and no more than memory holds


class Errand(NamedTuple):
    """What a process is asked to do.

    Parameters
    ----------
    search: a name of the search; a process keeps what it learns for the next slice of the same one.
    scenario, budgets, seed, absolute: what to make an engine of.
    start: the scenario's first state, which must be the same there.
    states: the slice.
    known: properties that were violated by something shorter.
    """

    search: str
    scenario: bytes
    budgets: Budgets
    seed: int
    absolute: bool
    start: Parcel
    states: Parcel
    known: frozenset[str]


class Answer(NamedTuple):
    """What a process found in a slice.

    Parameters
    ----------
    states: lists of states: all that the slice leads to, in the order in which they were found; those among them that
        cost nothing; ends; and where violations begin and happen.
    violations: for each of the latter, the property and the cost.
    transitions: how many choices were followed.
    told: for each worker, whether it returned, its actors that raised, and whether it was left polling in the slice.
    asked: sections that properties ask about.
    deepest: the most steps of a worker that the process has seen in any slice.
    """

    states: Parcel
    violations: list[tuple[str, int]]
    transitions: int
    told: list[tuple[bool, dict[str, Ending], bool]]
    asked: set[str]
    deepest: int


class Spread(BreadthFirst):
    """One search, spread over an executor.

    Parameters
    ----------
    engine: the scenario with its budgets.
    limits: what it may use; memory is that of this process.
    executor: runs `visit_slice`.
    scenario: the scenario, packed.
    """

    def __init__(self, engine: Engine, limits: Limits, executor: Executor, scenario: bytes) -> None:
        super().__init__(engine, limits)
        self._executor = executor
        world = engine.world
        start, nothing = pack(engine, [engine.start]), pack(engine)
        search = uuid.uuid4().hex
        self._errand = Errand(search, scenario, engine.budgets, world.seed, world.absolute, start, nothing, frozenset())

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
            found.stopped = limits.reached(len(depths), 0, 0)
            return
        except LabError as error:
            self.visit(part, depth)  # raises the same, unless it comes from how that process differs from this one
            if found.stopped is None:
                raise error
            return
        if answer is None or limits.reached(len(depths) + answer.states.lengths[0], 1, answer.deepest):
            self.visit(part, depth)
            return
        new, free, ends, before, after = unpack(self.engine, answer.states)
        for machine, (returned, raised, skipped) in zip(self.engine.machines, answer.told, strict=True):
            machine.returned |= returned
            for name, ending in raised.items():
                machine.raised.setdefault(name, ending)  # the first one tells
            machine.skipped_polls |= skipped
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


# ---- in the executor's processes


class _Kept(threading.local):
    """What a thread of an executor's process keeps between slices: greenlets and connections belong to one thread."""

    search = ""
    engine: Engine | None = None


_kept = _Kept()


def visit_slice(errand: Errand) -> Answer | None:
    """Visit a slice of a layer; None when it must be visited where the search is."""
    scenario = unpack_scenario(errand.scenario) if _kept.search != errand.search else None
    with intercepted():
        try:
            if scenario is not None:
                _kept.search, _kept.engine = "", None
                _kept.engine = _engine(errand, scenario)
                _kept.search = errand.search
            assert _kept.engine is not None
            return _answer(_kept.engine, errand)
        except ClockWasRead:
            return None
        except BaseException:
            _kept.search = ""  # what was interrupted is in no known state
            raise
        finally:
            if _kept.engine is not None:
                _kept.engine.close()  # between slices nothing is suspended, so this process may end at any time


def _engine(errand: Errand, scenario: Scenario) -> Engine:
    engine = Engine(scenario, errand.budgets, seed=errand.seed, absolute=errand.absolute)
    if unpack(engine, errand.start) != [[engine.start]]:
        raise Nondeterminism(
            "the scenario builds another world in a process of the executor than here. Look for environment variables, "
            "files and arguments that it reads, for iteration over a set, or for an unseeded random generator."
        )
    return engine


def _answer(engine: Engine, errand: Errand) -> Answer | None:
    (states,) = unpack(engine, errand.states)
    for machine in engine.machines:
        machine.tell_again()
    search = BreadthFirst(engine)
    search.layer = []
    search.found.depths.update(dict.fromkeys(states, 0))
    search.visit(states, 0)
    engine.check_python_state()
    found = search.found
    if found.stopped is not None:
        return None
    violations = [
        (name, cost, target)
        for name, (cost, targets) in found.targets.items()
        if name not in errand.known
        for target in targets
    ]
    before, after = ([target[side] for _, _, target in violations] for side in (0, 1))
    return Answer(
        pack(engine, list(islice(found.depths, len(states), None)), search.layer, found.ends, before, after),
        [(name, cost) for name, cost, _ in violations],
        found.transitions,
        [(machine.returned, machine.raised, machine.skipped_polls) for machine in engine.machines],
        set(engine.world.asked),
        engine.deepest(),
    )
