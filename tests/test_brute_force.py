"""The search against a brute-force enumeration that shares no code with it: outcomes, and shortest violations."""

import os
import random
import time

import pytest

from labkit.budgets import Budgets
from labkit.engine import Engine, Move
from labkit.interception import intercepted
from labkit.machine import DEAD, FINISHED, RAISED, Machine
from labkit.search.breadth_first import BreadthFirst
from labkit.stores.base import Outcome
from labkit.stores.embedded_redis import EmbeddedRedis
from labkit.stores.keyspace import Keyspace
from labkit.stores.services import ServiceLog
from tests import brute_force
from tests.random_programs import program_of, random_case

STATUS = {FINISHED: "finished", RAISED: "raised", DEAD: "crashed"}
CASES = int(os.environ.get("LABKIT_CASES", "200"))  # a thousand take some twenty minutes
SMALL_CASES = 60


class Effects:
    """What brute force calls `effect` and `sleep`, on the lab."""

    _shareable = True

    def __init__(self, lab):
        self.service = lab.service("effects")

    def effect(self, key):
        self.service.call(key)

    def sleep(self, seconds):
        time.sleep(seconds)


def searched(programs, crashes, pauses, lost):
    """What the search says of programs: the set of final outcomes, and the lengths of the shortest violations."""

    def scenario(lab):
        world = Effects(lab)
        observer = lab.redis()
        for name, program in programs.items():
            lab.worker(name, program, lab.redis(), world)
        calls = world.service
        lab.always(brute_force.TWICE, lambda: all(calls.count(call.key) == 1 for call in calls.calls))
        lab.at_end(brute_force.MISSING, lambda: observer.exists("x"))
        lab.always("true", lambda: True)  # never violated, so that the search goes through everything

    with intercepted():
        engine = Engine(scenario, Budgets(crashes, lost, pauses=pauses), absolute=False)
        try:
            found = BreadthFirst(engine).run()
            outcomes = {outcome(engine, state) for state in found.ends}
        finally:
            engine.close()
    return outcomes, {name: length for name, (length, _) in found.targets.items()}


def outcome(engine, state):
    keys = engine.world.stores[1].contents(state[1])
    slot = engine.world.slots["effects"]
    effects = tuple(call.key for call in engine.world.stores[slot].contents(state[slot]))
    plain = tuple((key, list(value) if kind == "list" else value, left) for key, kind, value, left in keys)
    return plain, effects, tuple(STATUS[engine.number_of(state, worker)] for worker in range(len(engine.machines)))


def case(seed, monkeypatch, cap=400):
    """A random case that brute force can execute completely, and what brute force says of it."""
    chance = random.Random(seed)
    judged = None
    while judged is None:
        programs, budgets = random_case(chance)
        judged = brute_force.judged(programs, *budgets, monkeypatch, cap)
    monkeypatch.undo()
    return programs, budgets, judged


@pytest.mark.parametrize("seed", range(CASES))
def test_random_programs_reach_the_same_outcomes_and_shortest_violations_in_both(seed, monkeypatch):
    programs, budgets, judged = case(seed, monkeypatch)
    assert searched(programs, *budgets) == judged


def lock_with_expiry(r, world):
    if r.set("lock", "locked", nx=True, ex=30):
        try:
            world.effect("inside")
            r.incr("x")
        finally:
            r.delete("lock")


def test_two_workers_with_an_expiring_lock_reach_the_same_outcomes_in_both(monkeypatch):
    programs = {"A": lock_with_expiry, "B": lock_with_expiry}
    judged = brute_force.judged(programs, 1, 1, 0, monkeypatch, cap=20_000)
    monkeypatch.undo()
    assert searched(programs, 1, 1, 0) == judged
    assert len(judged[0]) > 5
    assert judged[1][brute_force.TWICE] == 5


# ---- mutants: a search that forgets one part of the state must be caught by the comparison above


def forget_times_to_live(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "deadline", lambda self, state: None)


def merge_whatever_time_is_left(monkeypatch):
    dump = Keyspace.dump
    cut = lambda self, now: tuple((*entry[:3], entry[3] and 10_000_000) for entry in dump(self, now))  # noqa: E731
    monkeypatch.setattr(Keyspace, "dump", cut)


def go_a_millisecond_past_the_deadline(monkeypatch):
    age = EmbeddedRedis.age
    monkeypatch.setattr(EmbeddedRedis, "age", lambda self, state, elapsed: age(self, state, max(0, elapsed - 1_000)))


def forget_watches(monkeypatch):
    watch = EmbeddedRedis._watch

    def forgetful(self, content, request):
        return Outcome(watch(self, content, request).reply, self._states.number(content))

    monkeypatch.setattr(EmbeddedRedis, "_watch", forgetful)


def forget_that_an_expiry_touches_a_watch(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "age", _ageing_without_touching)


def _ageing_without_touching(self, state, elapsed):
    content = self._states.values[state]
    entries = tuple(
        (*e[:3], None if e[3] is None else e[3] - elapsed) for e in content.entries if (e[3] or 10**12) > elapsed
    )
    return self._states.number(content._replace(entries=entries))


def keep_watches_when_a_reply_is_lost(monkeypatch):
    hang_up = EmbeddedRedis.hang_up
    keep = lambda self, state, name: hang_up(self, state, name) if name.endswith("/") else state  # noqa: E731
    monkeypatch.setattr(EmbeddedRedis, "hang_up", keep)


def forget_effects(monkeypatch):
    monkeypatch.setattr(ServiceLog, "apply", lambda self, state, request, now: Outcome("done", state))


def forget_replies(monkeypatch):
    after = Machine.after
    monkeypatch.setattr(Machine, "after", lambda self, moment, actor, *_: after(self, moment, actor, None, wrote=False))


def take_a_wake_up_that_is_due_for_none(monkeypatch):
    """The trap `False == 0`: numbering a sleeper by whether it sleeps, not by how long."""
    number = Machine._number

    def merged(self, moment, left):
        sleeps = tuple(map(bool, left))
        known = self._numbers.get((id(moment), sleeps))
        if known is None:
            known = self._numbers[id(moment), sleeps] = number(self, moment, left)
        return known

    monkeypatch.setattr(Machine, "_number", merged)


def forget_how_many_pauses_are_left(monkeypatch):
    tick = Engine._tick

    def free(self, state):
        after = list(tick(self, state))
        after[self._budget["clock"]] = state[self._budget["clock"]]
        return tuple(after)

    monkeypatch.setattr(Engine, "_tick", free)


def crash_for_free(monkeypatch):
    take = Engine.take

    def free(self, state, code):
        move = take(self, state, code)
        after = list(move.state)
        after[self._budget["crash"]] = state[self._budget["crash"]]
        return Move(move.code, move.cost, tuple(after))

    monkeypatch.setattr(Engine, "take", free)


def skip_steps_that_seem_independent(monkeypatch):
    """A reduction as it is usually written: of steps on different keys, try one order only. The clock breaks it."""
    moves = Engine.moves

    def fewer(self, state):
        found = moves(self, state)
        steps = [move for move in found if move.code < len(self.machines)]
        if len(steps) > 1 and len({self._touched(state, move.code) for move in steps}) == len(steps):
            return [steps[0], *(move for move in found if move.code >= len(self.machines))]
        return found

    def touched(self, state, worker):
        return repr(self.moment_of(state, worker).operation)[:80]

    monkeypatch.setattr(Engine, "_touched", touched, raising=False)
    monkeypatch.setattr(Engine, "moves", fewer)


MUTANTS = [
    forget_times_to_live,
    merge_whatever_time_is_left,
    go_a_millisecond_past_the_deadline,
    forget_watches,
    forget_that_an_expiry_touches_a_watch,
    keep_watches_when_a_reply_is_lost,
    forget_effects,
    forget_replies,
    take_a_wake_up_that_is_due_for_none,
    forget_how_many_pauses_are_left,
    crash_for_free,
    skip_steps_that_seem_independent,
]


def differs(programs, budgets, judged):
    try:
        return searched(programs, *budgets) != judged
    except Exception:
        return True


@pytest.fixture(scope="module")
def small_cases():
    """Cases with few schedules, on all of which the search is right."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        cases = [case(seed, monkeypatch, cap=100) for seed in range(1_000, 1_000 + SMALL_CASES)]
        for *programs, budgets in CRAFTED:
            named = dict(zip("AB", programs, strict=True))
            cases.append((named, budgets, brute_force.judged(named, *budgets, monkeypatch, cap=20_000)))
        monkeypatch.undo()
    assert not any(differs(*one) for one in cases)
    return cases


# What chance rarely draws: a key that expires while it is watched, a watch that a lost connection must end, and an
# expiry in the middle of a sleep.
CRAFTED = [
    (
        program_of([("get", "x"), ("set", "y"), ("watch", "y")]),
        program_of([("get", "x")]),
        (0, 1, 0),
    ),
    (
        program_of([("watch", "y"), ("if", "x"), ("watch", "x"), ("if", "x")], careful=True),
        program_of([("get", "x"), ("set", "y")]),
        (0, 0, 1),
    ),
    (
        program_of([("sleep", "x"), ("sleep", "x"), ("effect", "x")]),
        program_of([("transaction", "x"), ("get", "x"), ("get", "x"), ("set", "y")]),
        (0, 0, 0),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_search_that_does_this_is_caught(mutant, small_cases, monkeypatch):
    mutant(monkeypatch)
    assert any(differs(*one) for one in small_cases)
