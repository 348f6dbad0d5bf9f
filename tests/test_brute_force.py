"""The search against a brute-force enumeration that shares no code with it."""

import random
import time

import pytest

from labkit.engine import Budgets, Engine
from labkit.interception import intercepted
from labkit.machine import DEAD, FINISHED, RAISED
from labkit.search.breadth_first import BreadthFirst
from tests import brute_force

STATUS = {FINISHED: "finished", RAISED: "raised", DEAD: "crashed"}


def searched_outcomes(programs, crashes, pauses):
    def scenario(lab):
        world = Effects(lab)
        for name, program in programs.items():
            lab.worker(name, program, lab.redis(), world)
        lab.always("true", lambda: True)

    with intercepted():
        engine = Engine(scenario, Budgets(crashes, pauses=pauses), absolute=False)
        found = BreadthFirst(engine, 1_000_000, None).run()
        outcomes = set()
        for state in found.ends:
            _, statuses = engine.outcome(state)
            keys = engine.world.stores[1].contents(state[1])
            slot = engine.world.slots["effects"]
            effects = tuple(call.key for call in engine.world.stores[slot].contents(state[slot]))
            plain = tuple((key, list(value) if kind == "list" else value, left) for key, kind, value, left in keys)
            outcomes.add((plain, effects, tuple(STATUS[status] for status in statuses)))
        engine.close()
    return outcomes


class Effects:
    """What brute force calls `effect` and `sleep`, on the lab."""

    _shareable = True

    def __init__(self, lab):
        self.service = lab.service("effects")

    def effect(self, key):
        self.service.call(key)

    def sleep(self, seconds):
        time.sleep(seconds)


def lock_with_expiry(r, world):
    if r.set("lock", "locked", nx=True, ex=30):
        try:
            world.effect("inside")
            r.incr("done")
        finally:
            r.delete("lock")


def random_program(chance):
    steps = [
        (chance.choice(["get", "set", "set", "take", "delete", "incr", "effect", "sleep", "if"]), chance.choice("xy"))
        for _ in range(chance.randint(2, 4))
    ]

    def program(r, world):
        last = None
        for index, (kind, key) in enumerate(steps):
            if kind == "get":
                last = r.get(key)
            elif kind == "set":
                last = r.set(key, index, ex=10 * (1 + index) if index % 2 else None)
            elif kind == "take":
                last = r.set(key, "taken", nx=True, ex=20)
            elif kind == "delete":
                last = r.delete(key)
            elif kind == "incr":
                last = r.incr(key)
            elif kind == "effect":
                world.effect(key)
            elif kind == "sleep":
                world.sleep(10)
            elif last:
                world.effect(f"if {last!r}")

    return program


def test_two_workers_with_an_expiring_lock_reach_the_same_outcomes_in_both(monkeypatch):
    programs = {"A": lock_with_expiry, "B": lock_with_expiry}
    expected = brute_force.outcomes(programs, 1, 1, monkeypatch)
    monkeypatch.undo()
    assert expected is not None
    assert searched_outcomes(programs, 1, 1) == expected
    assert len(expected) > 5


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_reach_the_same_outcomes_in_both(seed, monkeypatch):
    chance = random.Random(seed)
    expected = None
    while expected is None:  # until brute force can execute every schedule
        programs = {name: random_program(chance) for name in "ABC"[: chance.choice([2, 2, 2, 3])]}
        crashes, pauses = chance.choice([0, 0, 1]), chance.choice([0, 1, 2])
        expected = brute_force.outcomes(programs, crashes, pauses, monkeypatch, cap=1_000)
    monkeypatch.undo()
    assert searched_outcomes(programs, crashes, pauses) == expected


def test_a_search_that_forgets_expiries_is_caught(monkeypatch):
    """The comparison can fail: merging states that differ in a key's time to live loses outcomes."""
    from labkit.stores.embedded_redis import EmbeddedRedis

    programs = {"A": lock_with_expiry, "B": lock_with_expiry}
    expected = brute_force.outcomes(programs, 1, 1, monkeypatch)
    monkeypatch.undo()
    assert searched_outcomes(programs, 1, 1) == expected
    monkeypatch.setattr(EmbeddedRedis, "deadline", lambda self, state: None)
    assert searched_outcomes(programs, 1, 1) != expected
