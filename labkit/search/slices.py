"""A slice of a layer, visited in a process of an executor; such a process knows nothing of the search but this."""

from __future__ import annotations

import threading
from itertools import islice
from typing import NamedTuple

from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.errors import Nondeterminism
from labkit.interception import intercepted
from labkit.lab import Scenario
from labkit.portable_scenario import unpack_scenario
from labkit.portable_state import Parcel, pack, unpack
from labkit.runs import WorkersDiffer
from labkit.search.breadth_first import BreadthFirst
from labkit.stores.clock import ClockWasRead


class Errand(NamedTuple):
    """What a process is asked to do.

    Parameters
    ----------
    search: a name of the search; a process keeps what it learns for the next slice of the same one.
    scenario, budgets, seed, absolute, apart: what to make an engine of.
    start: the scenario's first state, which must be the same there.
    states: the slice.
    known: properties that were violated by something shorter.
    """

    search: str
    scenario: bytes
    budgets: Budgets
    seed: int
    absolute: bool
    apart: str | None
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
    told: for each worker, whether it returned, which of its actors raised, and whether it was left polling.
    asked: sections that properties ask about.
    deepest: the most steps of a worker that the process has seen in any slice.
    """

    states: Parcel
    violations: list[tuple[str, int]]
    transitions: int
    told: list[tuple[bool, set[str], bool]]
    asked: set[str]
    deepest: int


# The scenarios that this process itself searches, by search. Its own threads take them from here: to load what was
# sent by value would put copies in the place of its classes.
searched_here: dict[str, Scenario] = {}


class _Kept(threading.local):
    """What a thread of an executor's process keeps between slices: greenlets and connections belong to one thread."""

    search = ""
    engine: Engine | None = None


_kept = _Kept()


def visit_slice(errand: Errand) -> Answer | None:
    """Visit a slice of a layer; None when it must be visited where the search is."""
    scenario = None
    if _kept.search != errand.search:
        scenario = searched_here.get(errand.search) or unpack_scenario(errand.scenario)
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
        except WorkersDiffer:
            _kept.search = ""  # what was not compared to its end must not be met again
            return None
        except BaseException:
            _kept.search = ""  # what was interrupted is in no known state
            raise
        finally:
            if _kept.engine is not None:
                _kept.engine.close()  # between slices nothing is suspended, so this process may end at any time


def _engine(errand: Errand, scenario: Scenario) -> Engine:
    engine = Engine(scenario, errand.budgets, seed=errand.seed, absolute=errand.absolute, apart=errand.apart)
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
        [
            (machine.returned, {name + thread for thread in machine.raised}, machine.skipped_polls)
            for name, machine in zip(engine.names, engine.machines, strict=True)
        ],
        set(engine.world.asked),
        engine.deepest(),
    )
