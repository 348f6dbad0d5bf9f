"""The search against a brute-force enumeration that shares no code with it: outcomes, and shortest violations."""

import os
import random

import pytest

from labkit.budgets import Budgets
from labkit.engine import Engine
from labkit.interception import intercepted
from labkit.machine import DEAD, FINISHED, RAISED
from labkit.search.breadth_first import BreadthFirst
from labkit.search.limits import Limits
from tests import brute_force
from tests.brute_force import Bounds
from tests.mutants import MUTANTS
from tests.random_programs import program_of, put_into, random_case

STATUS = {FINISHED: "finished", RAISED: "raised", DEAD: "crashed"}
CASES = int(os.environ.get("LABKIT_CASES", "200"))  # a thousand take some ten minutes
FIRST_CASE = int(os.environ.get("LABKIT_FIRST_CASE", "0"))
SMALL_CASES = 40


def searched(programs, bounds):
    """What the search says of programs: the set of final outcomes, and the lengths of the shortest violations."""

    def scenario(lab):
        put_into(lab, programs)
        observer = lab.redis()
        effects = lab.service("effects")
        lab.always(brute_force.TWICE, lambda: all(effects.count(call.key) == 1 for call in effects.calls))
        lab.always(brute_force.TOGETHER, lambda: lab.inside("s") <= 1)
        lab.at_end(brute_force.MISSING, lambda: observer.exists("x"))
        lab.always("true", lambda: True)  # never violated, so that the search goes through everything

    crashes, pauses, lost, signals, polls = bounds
    with intercepted():
        engine = Engine(scenario, Budgets(crashes, lost, signals, pauses, polls), absolute=False)
        try:
            found = BreadthFirst(engine, Limits(states=20_000)).run()
            assert found.stopped is None
            assert not engine.skipped_polls()
            outcomes = {outcome(engine, state) for state in found.ends}
        finally:
            engine.close()
    return outcomes, {name: length for name, (length, _) in found.targets.items()}


def outcome(engine, state):
    def contents(store):
        slot = engine.world.slots[store]
        return engine.world.stores[slot].contents(state[slot])

    keys = tuple((key, value, left) for key, _, value, left in contents("redis"))
    effects = tuple(call.key for call in contents("effects"))
    database = contents("sql")
    transaction = (database.owner.partition("/")[0], rows(database.working)) if database.owner else None
    numbers = (engine.number_of(state, worker) for worker in range(len(engine.machines)))
    status = tuple(STATUS.get(number, "running") for number in numbers)
    return keys, effects, (rows(database.committed), transaction), status


def rows(content):
    """The rows of the one table, without their row ids."""
    ((_, found),) = content[1]
    return tuple(sorted(row[1:] for row in found))


def case(seed, monkeypatch, cap=250):
    """A random case with several outcomes that brute force can execute completely, and what brute force says of it."""
    chance = random.Random(seed)
    judged = None
    while judged is None or len(judged[0]) == 1:
        programs, bounds = random_case(chance)
        judged = brute_force.judged(programs, bounds, monkeypatch, cap)
        monkeypatch.undo()
    return programs, bounds, judged


@pytest.mark.parametrize("seed", range(FIRST_CASE, FIRST_CASE + CASES))
def test_random_programs_reach_the_same_outcomes_and_shortest_violations_in_both(seed, monkeypatch):
    programs, bounds, judged = case(seed, monkeypatch)
    assert searched(programs, bounds) == judged


@pytest.mark.parametrize("seed", range(30))
def test_a_poller_that_is_left_alone_loses_no_outcome(seed, monkeypatch):
    """Brute force polls on until everything repeats itself. (A look that is left out cannot be paused, or lost.)"""
    chance, judged = random.Random(seed), None
    while judged is None or len(judged[0]) == 1:
        programs, bounds = random_case(chance)
        if any(program.endless for program in programs.values()):
            bounds = bounds._replace(pauses=0, lost=0)
            judged = brute_force.judged(programs, bounds._replace(polls=None), monkeypatch, cap=200)
            monkeypatch.undo()
    assert searched(programs, bounds)[0] == judged[0]


def lock_with_expiry(r, world):
    if r.set("lock", "locked", nx=True, ex=30):
        try:
            world.effect("inside")
            r.incr("x")
        finally:
            r.delete("lock")


def test_two_workers_with_an_expiring_lock_reach_the_same_outcomes_in_both(monkeypatch):
    programs = {"A": lock_with_expiry, "B": lock_with_expiry}
    judged = brute_force.judged(programs, Bounds(crashes=1, pauses=1), monkeypatch, cap=20_000)
    monkeypatch.undo()
    assert searched(programs, Bounds(crashes=1, pauses=1)) == judged
    assert len(judged[0]) > 5
    assert judged[1][brute_force.TWICE] == 5


# ---- mutants: a search that forgets one part of the state must be caught by the comparison above


def differs(programs, bounds, judged):
    """Whether the search gives another answer; to give none at all is too easy to notice to count."""
    try:
        return searched(programs, bounds) != judged
    except Exception:
        return False


@pytest.fixture(scope="module")
def small_cases():
    """Cases with few schedules, on all of which the search is right."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        cases = [case(seed, monkeypatch, cap=60) for seed in range(1_000, 1_000 + SMALL_CASES)]
        for *programs, bounds in CRAFTED:
            named = dict(zip("AB", programs, strict=True))
            cases.append((named, bounds, brute_force.judged(named, bounds, monkeypatch, cap=20_000)))
        monkeypatch.undo()
    assert all(searched(programs, bounds) == judged for programs, bounds, judged in cases)
    return cases


# What chance rarely draws: a key that expires while it is watched, a watch that a lost connection must end, an expiry
# in the middle of a sleep, a write and an expiry that wake a poller which was left alone, a handler that takes a step
# while its worker sleeps, two workers that may be told to stop, a lock that outlives its dead owner, two expiries and
# one pause, an element that comes while somebody waits for it, and a transaction of a worker that dies.
CRAFTED = [
    (
        program_of([("get", "x"), ("set", "y"), ("watch", "y")]),
        program_of([("get", "x")]),
        Bounds(pauses=1),
    ),
    (
        program_of([("watch", "y"), ("if", "x"), ("watch", "x"), ("if", "x")], careful=True),
        program_of([("get", "x"), ("set", "y")]),
        Bounds(lost=1),
    ),
    (
        program_of([("sleep", "x"), ("sleep", "x"), ("effect", "x")]),
        program_of([("transaction", "x"), ("get", "x"), ("get", "x"), ("set", "y")]),
        Bounds(),
    ),
    (
        program_of([("wait", "x"), ("take", "y")]),
        program_of([("sleep", "y"), ("sleep", "x"), ("sleep", "x"), ("sleep", "x"), ("transaction", "x")]),
        Bounds(polls=2),
    ),
    (
        program_of([("sleep", "x"), ("gone", "x"), ("effect", "x")]),
        program_of([("if", "x"), ("if", "x"), ("if", "x"), ("set", "x")]),
        Bounds(polls=2),
    ),
    (
        program_of([("sleep", "x"), ("take", "y")], handler="effect"),
        program_of([("transaction", "x")]),
        Bounds(signals=1),
    ),
    (
        program_of([("get", "x")], handler="effect"),
        program_of([("get", "x")], handler="flag"),
        Bounds(signals=2),
    ),
    (
        program_of([("lock", "x")]),
        program_of([("lock", "x")]),
        Bounds(crashes=1, polls=2),
    ),
    (
        program_of([("transaction", "x"), ("take", "y"), ("get", "x")]),
        program_of([("get", "x")]),
        Bounds(pauses=1),
    ),
    (
        program_of([("pop", "x"), ("take", "y")]),
        program_of([("sleep", "y"), ("transaction", "x"), ("push", "x")]),
        Bounds(),
    ),
    (
        program_of([("update", "x"), ("commit", "x")]),
        program_of([("update", "x"), ("commit", "x")]),
        Bounds(crashes=1),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_search_that_does_this_is_caught(mutant, small_cases, monkeypatch):
    mutant(monkeypatch)
    assert any(differs(*one) for one in small_cases)
