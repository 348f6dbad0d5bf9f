"""Identical workers are taken for one another, and nothing that a search says changes but how it counts."""

import functools
import json
import random
import secrets
import signal
import threading
import time
import uuid
from itertools import count, permutations

import pytest
import redis

from labkit import explore
from labkit.__main__ import main
from labkit.budgets import Budgets
from labkit.cases import CASES, Case
from labkit.engine import Engine
from labkit.errors import Nondeterminism
from labkit.interception import intercepted
from labkit.lab import WorkerPlan
from labkit.process import current_process
from labkit.runs import Runs, WorkersDiffer
from labkit.search import fewest_switches, spread
from labkit.search.breadth_first import BreadthFirst
from labkit.search.fewest_switches import shortest_way
from tests.programs import (
    article_completion,
    article_fix,
    blocking_lock,
    naive,
    naive_completion,
    naive_lock,
    retry_later,
    retry_once,
    sound_completion,
    sound_fix,
    status_race,
)
from tests.random_programs import program_of
from tests.test_spread import Disorderly, same

RANDOM_CASES = 110
KINDS = ["get", "set", "set", "take", "delete", "incr", "effect", "sleep", "if", "script", "transaction"]


def told(verdict):
    """What a verdict says, but for how it counts."""
    shown = {name: (trace.length, str(trace.schedule)) for name, trace in verdict.violations.items()}
    who = (sorted(verdict.raised), sorted(verdict.waiting), verdict.never_returned, verdict.skipped_polls)
    return verdict.outcome, shown, who, verdict.stopped, verdict.unknown_sections


def assert_the_same_is_told(scenario, **budgets):
    """Both ways; returns the two verdicts."""
    one, other = explore(scenario, **budgets), explore(scenario, symmetry=False, **budgets)
    assert told(one) == told(other)
    assert other.bounds.symmetry == "off: symmetry=False"
    assert one.states <= other.states
    return one, other


SCENARIOS = {
    "naive": (naive, {}),
    "naive, 4 workers, crash": (status_race(naive_completion, "ABCD"), {"crashes": 1}),
    "naive, retry": (status_race(naive_completion, "ABC", retry=retry_once), {"crashes": 1}),
    "article": (article_fix, {"crashes": 1, "pauses": 1}),
    "article, lost reply": (article_fix, {"lost_replies": 1, "pauses": 1}),
    "article, 3 workers, crash": (status_race(article_completion, "ABC", with_section=True), {"crashes": 1}),
    "article, 3 workers, pauses": (status_race(article_completion, "ABC", with_section=True), {"pauses": None}),
    "article, retry": (status_race(article_completion, "AB", retry=retry_later), {"crashes": 1, "pauses": 1}),
    "article, failover": (status_race(article_completion, "AB", with_section=True), {"failovers": 1}),
    "sound": (sound_fix, {"crashes": 1, "pauses": 1}),
    "sound, retry once": (status_race(sound_completion, "AB", retry=retry_once), {"crashes": 1}),
    **{f"check-then-set lock, {number} workers": (naive_lock("ABCDE"[:number]), {}) for number in (2, 3, 4, 5)},
    "check-then-set lock, faults": (naive_lock("ABC"), {"crashes": 1, "lost_replies": 1}),
    "blocking lock": (blocking_lock, {}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_outcomes_lengths_and_schedules_are_the_same_with_and_without(name):
    scenario, budgets = SCENARIOS[name]
    assert_the_same_is_told(scenario, **budgets)


@pytest.mark.parametrize("case", [case for case in CASES.values() if isinstance(case, Case)], ids=lambda case: case.id)
def test_the_gallery_is_told_the_same_with_and_without(case):
    for scenario in (case.broken, case.fixed):
        assert_the_same_is_told(scenario, **case.budgets)


# ---- state by state


class World:
    """What random programs call `effect` and `sleep`, on the lab."""

    _shareable = True

    def __init__(self, lab):
        self.service = lab.service("effects")

    def effect(self, key):
        self.service.call(key)

    def sleep(self, seconds):
        time.sleep(seconds)


def given_to(workers, program, watched=True):
    def scenario(lab):
        world, observer = World(lab), lab.redis()
        for name in workers:
            lab.worker(name, program, lab.redis(), world)
        calls = world.service
        lab.always("no effect twice", lambda: all(calls.count(call.key) == 1 for call in calls.calls))
        lab.at_end("x exists at the end", lambda: observer.exists("x"))
        if watched:
            lab.always("y stays", lambda before, now: not before or now, remember=lambda: observer.exists("y"))
        lab.always("true", lambda: True)  # never violated, so that the search goes through everything

    return scenario


def random_case(seed):
    chance = random.Random(seed)
    workers = chance.choice(["AB", "AB", "ABC", "ABCD"])
    longest = {2: 4, 3: 3, 4: 2}[len(workers)]
    steps = tuple((chance.choice(KINDS), chance.choice("xy")) for _ in range(chance.randint(2, longest)))
    program = program_of(steps, careful=chance.random() < 0.5)
    budgets = {
        "crashes": chance.choice([0, 0, 1, 2]) if len(workers) < 4 else 0,
        "pauses": chance.choice([0, 1]),
        "lost_replies": chance.choice([0, 0, 1]),
    }
    return workers, program, budgets


def searched(scenario, budgets, apart):
    """An engine that was searched, and what was found; the caller has intercepted time and closes it."""
    engine = Engine(scenario, Budgets(**budgets), absolute=False, apart=apart)
    return engine, BreadthFirst(engine).run()


def contents(engine, state, known):
    """A state as plain data: what the stores hold, where each worker stands, and what is left of the budgets."""
    stores = tuple(repr(store.contents(state[slot])) for slot, store in enumerate(engine.world.stores))
    workers = []
    for worker, machine in enumerate(engine.machines):
        number = engine.number_of(state, worker)
        if (machine, number) not in known and number >= 0:
            replies = [repr(moment.reply) for moment in machine.moments[number].path()]
            known[machine, number] = repr((replies, [pending.left for pending in machine.pending[number]]))
        workers.append(known.get((machine, number), str(number)))
    return stores, tuple(workers), state[-len(engine._budget) :]


def every_order(engine, plain):
    """The states that one state stands for."""
    stores, workers, budgets = plain
    found = {tuple(workers)}
    for group in engine.symmetry.groups:
        for known in list(found):
            for order in permutations(group):
                swapped = list(known)
                for place, worker in zip(group, order, strict=True):
                    swapped[place] = known[worker]
                found.add(tuple(swapped))
    return {(stores, workers, budgets) for workers in found}


def all_states(scenario, budgets, apart):
    """For each state that a search saw, or that one it saw stands for: its depth, and whether it is an end."""
    with intercepted():
        engine, found = searched(scenario, budgets, apart)
        try:
            ends, states, known = set(found.ends), {}, {}
            for state, depth in found.depths.items():
                for other in every_order(engine, contents(engine, state, known)):
                    assert states.setdefault(other, (depth, state in ends)) == (depth, state in ends)
            lengths = {name: length for name, (length, _) in found.targets.items()}
            return states, lengths, len(found.depths)
        finally:
            engine.close()


@pytest.mark.parametrize("seed", range(RANDOM_CASES))
def test_states_stand_for_exactly_those_that_a_search_without_symmetry_sees(seed):
    workers, program, budgets = random_case(seed)
    scenario = given_to(workers, program)
    merged, lengths, seen = all_states(scenario, budgets, apart=None)
    plain, plain_lengths, plain_seen = all_states(scenario, budgets, apart="to compare")
    assert merged == plain
    assert lengths == plain_lengths
    assert plain_seen == len(plain)
    assert seen < plain_seen or plain_seen == 1


@pytest.mark.parametrize("seed", range(RANDOM_CASES, RANDOM_CASES + 20))
def test_random_programs_are_told_the_same_with_and_without(seed):
    workers, program, budgets = random_case(seed)
    one, _ = assert_the_same_is_told(given_to(workers, program), **budgets)
    assert one.bounds.symmetry == "on"


def random_scenario(seed, lab):
    workers, program, _ = random_case(seed)
    given_to(workers, program)(lab)


@pytest.mark.parametrize("seed", range(RANDOM_CASES, RANDOM_CASES + 6))
def test_a_spread_search_takes_the_same_for_one_another(seed, monkeypatch):
    monkeypatch.setattr(spread, "SMALLEST_SLICE", 1)
    scenario, budgets = functools.partial(random_scenario, seed), random_case(seed)[2]
    alone, executor = explore(scenario, **budgets), Disorderly(random.Random(seed))
    assert same(explore(scenario, executor=executor, **budgets), alone)
    assert executor.ran
    assert alone.bounds.symmetry == "on"


def signs_late(lab):
    workers_of(signs_rarely)(lab)


def test_a_spread_search_tells_apart_what_differs_late(monkeypatch):
    monkeypatch.setattr(spread, "SMALLEST_SLICE", 1)
    for seed in range(10):
        executor = Disorderly(random.Random(seed))
        assert same(explore(signs_late, executor=executor), explore(signs_late))
        assert executor.ran


def signs_when_told(r, me):
    if r.get("go"):
        r.set("last", me)


def tells(r):
    r.set("go", "yes")


def tells_too(r):
    r.set("go", "yes")


def told_by_two(lab):
    workers_of(signs_when_told)(lab)
    for name, function in (("X", tells), ("Y", tells_too)):
        lab.worker(name, function, lab.redis())


def test_a_difference_that_several_slices_come_to_is_missed_by_none(monkeypatch):
    monkeypatch.setattr(spread, "SMALLEST_SLICE", 1)
    executor = Disorderly()  # backwards: the last slice of a layer is the first that finds it
    assert same(explore(told_by_two, executor=executor), explore(told_by_two))
    assert executor.ran


def test_five_workers_have_a_twentieth_of_the_states_and_eight_are_no_effort():
    states = [explore(naive_lock("ABCDEFGH"[:workers])).states for workers in (3, 5, 6, 8)]
    assert states == [44, 181, 315, 789]
    assert explore(naive_lock("ABCDE"), symmetry=False).states > 20 * 181


def test_the_way_to_a_violation_is_found_without_walking_every_order_of_the_workers(monkeypatch):
    def scenario(lab):
        def work(r):
            if r.incr("count") == 7:
                r.set("all", "here")

        observer = lab.redis()
        for name in "ABCDEFG":
            lab.worker(name, work, lab.redis())
        lab.always("not all are here", lambda: not observer.exists("all"))

    taken = []
    moves = Engine.moves
    monkeypatch.setattr(Engine, "moves", lambda self, state: taken.append(state) or moves(self, state))
    verdict = explore(scenario)
    assert str(verdict.counterexample.schedule) == "A B C D E F G G"
    assert len(taken) < 100


# ---- who is identical


def workers_of(work, names="AB", options=None):
    """Workers that are given their names, besides a client."""

    def scenario(lab):
        observer = lab.redis()
        for name in names:
            lab.worker(name, work, lab.redis(), name, **(options or {}).get(name, {}))
        lab.always("two at most", lambda: int(observer.get("n") or 0) <= 2)
        lab.at_end("the last is not B", lambda: observer.get("last") != b"B")
        lab.always("true", lambda: True)

    return scenario


def signs(r, me):
    r.incr("n")
    r.set("last", me)


def signs_rarely(r, me):
    r.incr("n")
    if r.get("n") == b"2":
        r.set("last", me)


def closes_over_its_name(lab):
    for name in "AB":

        def work(r, name=None, me=name):
            signs(r, me)

        lab.worker(name, work, lab.redis())


def closes_over_a_loop_variable(lab):
    def made(me):
        return lambda r: signs(r, me)

    for name in "AB":
        lab.worker(name, made(name), lab.redis())


def has_its_name_in_a_partial(lab):
    for name in "AB":
        lab.worker(name, functools.partial(signs, me=name), lab.redis())


class Signer:
    def __init__(self, r, me):
        self.r, self.me = r, me

    def work(self):
        signs(self.r, self.me)


def has_its_name_in_an_object(lab):
    for name in "AB":
        lab.worker(name, Signer(lab.redis(), name).work)


def has_its_name_on_its_client(lab):
    for name in "AB":
        client = lab.redis()
        client.owner = name
        lab.worker(name, lambda r: signs(r, r.owner), client)


def has_a_client_that_understands_otherwise(lab):
    def work(r):
        r.incr("n")
        if r.get("n") == "2":
            r.set("last", "B")

    for name, client in (("A", lab.redis()), ("B", lab.redis(decode_responses=True))):
        lab.worker(name, work, client)


def has_a_client_with_a_callback(lab):
    def work(r):
        r.incr("n")
        r.set("last", r.get("n"))

    for name in "AB":
        client = lab.redis()
        client.set_response_callback("GET", lambda reply, name=name, **_: name)
        lab.worker(name, work, client)


def is_told_its_name_by_the_store(lab):
    jobs = lab.redis()
    jobs.hset("names", mapping={"0": "A", "1": "B"})

    def work(r, place):
        r.incr("n")
        r.set("last", r.hget("names", place))

    for place, name in enumerate("AB"):
        lab.worker(name, work, lab.redis(), place)


def asks_the_lab_for_its_name(r, me):
    r.incr("n")
    r.set("last", current_process().name)


def draws_a_token(r, me):
    r.incr("n")
    r.set("token", uuid.uuid4().hex)


def draws_a_secret(r, me):
    r.incr("n")
    r.set("token", secrets.token_hex(4))


def waits_at_random(r, me):
    r.incr("n")
    time.sleep(random.uniform(1, 2))
    r.incr("n")


def watches(r, me):
    r.incr("n")
    with r.pipeline() as pipe:
        pipe.watch("n")
        pipe.multi()
        pipe.incr("n")
        try:
            pipe.execute()
        except redis.WatchError:
            return


def subscribes(r, me):
    r.incr("n")
    with r.pubsub() as messages:
        messages.subscribe("news")


def raises_its_name(r, me):
    r.incr("n")
    raise ValueError(f"{me} is lost")


def names_its_thread(r, me):
    def beat():
        r.get("n")

    r.incr("n")
    threading.Thread(target=beat, name=f"beat-{me}").start()


def handles_its_signal(r, me):
    if me == "A":
        signal.signal(signal.SIGTERM, lambda *_: None)
    r.incr("n")
    r.incr("n")


def uses_sql(lab):
    def work(r, db):
        r.incr("n")
        db.execute("INSERT INTO jobs VALUES (1)")
        db.commit()

    setup = lab.sql()
    setup.execute("CREATE TABLE jobs (id INTEGER)")
    setup.commit()
    for name in "AB":
        lab.worker(name, work, lab.redis(), lab.sql())


def enters_its_own_section(lab):
    def work(r, me):
        r.incr("n")
        with lab.section(me):
            r.get("n")

    for name in "AB":
        lab.worker(name, work, lab.redis(), name)
    lab.always("B never enters", lambda: lab.inside("B") == 0)


def tells_a_service(lab):
    def work(r, me):
        r.incr("n")
        lab.mail.send("hello", sender=me)

    for name in "AB":
        lab.worker(name, work, lab.redis(), name)


def sends_again(lab):
    for name, retries in (("A", 0), ("B", 1)):
        lab.worker(name, lambda r: r.incr("n"), lab.redis(retries=retries))


def with_properties(scenario):
    """The same scenario, with properties that only differences between the workers can break."""

    def judged(lab):
        observer = lab.redis()
        scenario(lab)
        lab.at_end("the last is not B", lambda: observer.get("last") != b"B")
        lab.always("true", lambda: True)

    return judged


SIGNED = "'SET last A' and B to 'SET last B'"
DIFFERENT = [
    (workers_of(signs), SIGNED, {}),
    (workers_of(signs_rarely), SIGNED, {}),
    (workers_of(signs, "ABCD"), SIGNED, {}),
    (closes_over_its_name, SIGNED, {}),
    (closes_over_a_loop_variable, SIGNED, {}),
    (has_its_name_in_a_partial, SIGNED, {}),
    (has_its_name_in_an_object, SIGNED, {}),
    (has_its_name_on_its_client, SIGNED, {}),
    (has_a_client_that_understands_otherwise, "A comes to 'returned' and B to 'SET last B'", {}),
    (has_a_client_with_a_callback, SIGNED, {}),
    (is_told_its_name_by_the_store, "'HGET names 0' and B to 'HGET names 1'", {}),
    (workers_of(asks_the_lab_for_its_name), SIGNED, {}),
    (workers_of(draws_a_token), "A comes to 'SET token ", {}),
    (workers_of(draws_a_secret), "A comes to 'SET token ", {}),
    (workers_of(waits_at_random), "A comes to 'wakes after ", {}),
    (workers_of(watches), "A and B come to 'WATCH n' under other names", {}),
    (uses_sql, "A and B come to 'INSERT INTO jobs VALUES (1)' under other names", {}),
    (workers_of(subscribes), "A and B come to 'SUBSCRIBE news' under other names", {}),
    (workers_of(raises_its_name), "A comes to 'raised ValueError: A is lost", {}),
    (workers_of(names_its_thread), "A and B come to 'waits for a thread | GET n' under other names", {}),
    (
        workers_of(handles_its_signal, options={name: {"signals": 1} for name in "AB"}),
        "A comes to 'INCRBY n 1' and B to 'was killed by SIGTERM'",
        {},
    ),
    (enters_its_own_section, "A and B come to 'GET n' at different places", {}),
    (tells_a_service, "'mail.send(hello, sender=A)' and B to 'mail.send(hello, sender=B)'", {}),
    (sends_again, "A comes to 'raised TimeoutError", {"lost_replies": 1}),
]


@pytest.mark.parametrize(("scenario", "why", "budgets"), DIFFERENT, ids=[f"{why}" for _, why, _ in DIFFERENT])
def test_workers_that_differ_in_anything_that_shows_are_told_apart(scenario, why, budgets):
    verdict, other = assert_the_same_is_told(with_more(scenario), **budgets)
    assert verdict.bounds.symmetry.startswith("off: ")
    assert why in verdict.bounds.symmetry
    assert verdict.bounds.identical == ()
    assert (verdict.states, verdict.transitions) == (other.states, other.transitions)
    assert "counting" not in repr(verdict)


def with_more(scenario):
    return scenario if scenario.__name__ == "scenario" else with_properties(scenario)


@pytest.mark.parametrize(
    "options",
    [{"spared": True}, {"forever": True}, {"signals": 1}, {"skew": 2.0}, {"jump": 3.0}],
    ids=lambda options: next(iter(options)),
)
def test_workers_with_other_options_are_told_apart(options):
    def work(r, _):
        r.incr("n")
        r.get("n")

    scenario = workers_of(work, options={"A": options})
    verdict, _ = assert_the_same_is_told(scenario, crashes=1, jumps=1)
    assert verdict.bounds.symmetry == "off: no two workers have the same function and options"
    both = workers_of(work, options={"A": options, "B": options})
    assert assert_the_same_is_told(both, crashes=1, jumps=1)[0].bounds.symmetry == "on"


def test_a_name_that_is_only_printed_tells_nobody_apart_and_is_printed_right():
    def work(r, me):
        print("here is", me)
        r.incr("n")
        r.incr("n")

    verdict, _ = assert_the_same_is_told(workers_of(work))
    assert verdict.bounds.symmetry == "on"
    assert "B: here is B" in verdict.counterexample.log()


def test_a_token_that_nobody_sees_tells_nobody_apart():
    def work(r, _):
        uuid.uuid4()
        r.incr("n")

    assert assert_the_same_is_told(workers_of(work))[0].bounds.symmetry == "on"


def test_only_the_identical_ones_among_the_workers_are_taken_for_one_another():
    def work(r):
        r.incr("n")
        r.get("n")

    def other(r):
        r.set("n", 0)

    def scenario(lab):
        observer = lab.redis()
        for name in ("A", "X", "B", "Y", "C"):
            lab.worker(name, work if name < "D" else other, lab.redis())
        lab.worker("R", work, lab.redis(), spared=True)
        lab.always("three at most", lambda: int(observer.get("n") or 0) <= 3)
        lab.always("true", lambda: True)

    verdict, other_verdict = assert_the_same_is_told(scenario, crashes=1)
    assert verdict.bounds.identical == (("A", "B", "C"), ("X", "Y"))
    assert verdict.states * 5 < other_verdict.states
    assert verdict.bounds.counted == " (A, B and C; X and Y are interchangeable)"


def test_a_difference_that_shows_late_starts_the_search_again_in_the_same_world(monkeypatch):
    worlds, searches = [], []
    make, run = Engine.__init__, BreadthFirst.run
    monkeypatch.setattr(Engine, "__init__", lambda self, *args, **kw: worlds.append(kw) or make(self, *args, **kw))
    monkeypatch.setattr(BreadthFirst, "run", lambda self: searches.append(self) or run(self))
    scenario = workers_of(signs_rarely)
    verdict = explore(scenario)
    assert len(searches) == 2
    assert len(worlds) == 1 + len(verdict.violations)  # each counterexample is replayed in a world of its own


# ---- what the verdict says of every worker


def test_what_is_said_of_one_identical_worker_is_said_of_all():
    def work(r):
        if r.incr("n") > 1:
            r.blpop("never")
        raise ValueError("lost")

    def scenario(lab):
        for name in "ABC":
            lab.worker(name, work, lab.redis())
        lab.at_end("true", lambda: True)

    verdict, other = assert_the_same_is_told(scenario)
    assert verdict.bounds.symmetry == "on"
    assert verdict.never_returned == ("A", "B", "C")
    assert verdict.raised == other.raised
    assert verdict.waiting == other.waiting == dict.fromkeys("ABC", "BLPOP never 0")


def test_endings_of_threads_are_said_of_the_threads_of_all():
    def work(r):
        def beat():
            r.get("n")
            raise ValueError("lost")

        threading.Thread(target=beat, daemon=True).start()
        r.incr("n")
        r.incr("n")

    def scenario(lab):
        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.at_end("true", lambda: True)

    verdict, other = assert_the_same_is_told(scenario)
    assert verdict.bounds.symmetry == "on"
    assert set(verdict.raised) == {"A/beat", "B/beat"}
    assert verdict.raised == other.raised


def test_polls_that_are_cut_short_are_said_of_all():
    def work(r):
        for _ in range(9):
            if r.get("go"):
                return
            time.sleep(1)

    def scenario(lab):
        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.at_end("true", lambda: True)

    verdict, _ = assert_the_same_is_told(scenario)
    assert verdict.bounds.symmetry == "on"
    assert verdict.skipped_polls == ("A", "B")


NUMBERS = count()


def test_code_that_behaves_differently_when_it_is_run_again_is_still_refused():
    def work(r):
        r.set("n", 0)
        r.set("n", next(NUMBERS))

    def scenario(lab):
        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.at_end("true", lambda: True)

    with pytest.raises(Nondeterminism, match="behaves differently when it is run again"):
        explore(scenario)


# ---- texts


def mailed_once(lab):
    def work(r):
        if r.set("mailed", "yes", nx=True):
            lab.mail.send("order-1")

    for name in "ABC":
        lab.worker(name, work, lab.redis())
    lab.always("at most one mail", lambda: lab.mail.count() <= 1)


def test_the_headline_says_how_states_were_counted():
    assert explore(mailed_once).headline == (
        "3 workers, no crash, no pause: holds in all 7 states (A, B and C are interchangeable)."
    )
    plain = explore(mailed_once, symmetry=False)
    assert plain.headline == "3 workers, no crash, no pause: holds in all 20 states."


def test_a_violation_is_told_in_the_same_words():
    assert repr(explore(naive)) == repr(explore(naive, symmetry=False))


def test_bounds_say_whether_symmetry_was_used():
    assert explore(mailed_once).bounds.symmetry == "on"
    assert explore(mailed_once).bounds.identical == (("A", "B", "C"),)
    assert explore(mailed_once, symmetry=False).bounds.symmetry == "off: symmetry=False"


def test_the_command_line_can_switch_it_off(capsys):
    place = "tests/test_symmetry.py:mailed_once"
    found = {}
    for more in ([], ["--no-symmetry"]):
        assert main(["explore", place, "--json", *more]) == 0
        answer = json.loads(capsys.readouterr().out)
        found[answer["symmetry"]] = answer["states"]
    assert found == {"on": 7, "off: symmetry=False": 20}


# ---- mutants: a search that is careless about who is identical is caught by the comparisons above


def test_a_search_that_does_not_run_what_it_takes_for_the_same_is_caught(monkeypatch):
    scenario = workers_of(signs)
    assert "the last is not B" in explore(scenario).violations
    monkeypatch.setattr(Runs, "follow_with", lambda self, others: None)
    assert "the last is not B" not in explore(scenario).violations
    with pytest.raises(AssertionError):
        assert_the_same_is_told(scenario)


def test_a_search_that_does_not_compare_is_stopped_by_the_rehearsal_of_every_worker(monkeypatch):
    monkeypatch.setattr(Runs, "_follow", lambda self, leader, moment, child: None)
    with pytest.raises(Nondeterminism, match="its step 2 was 'SET last A' and now is 'SET last B'"):
        explore(workers_of(signs))


def test_a_search_that_compares_only_what_workers_ask_for_is_caught(monkeypatch):
    follow = Runs._follow

    def careless(self, leader, moment, child):
        try:
            follow(self, leader, moment, child)
        except WorkersDiffer as difference:
            if "at different places" not in str(difference):
                raise

    monkeypatch.setattr(Runs, "_follow", careless)
    with pytest.raises(AssertionError):
        assert_the_same_is_told(with_properties(enters_its_own_section))


def test_a_search_that_forgets_the_options_of_workers_is_caught(monkeypatch):
    def with_one_spared(spared):
        def scenario(lab):
            def work(r):
                if r.incr("begun") == 1:
                    r.set("done", "yes")

            observer = lab.redis()
            for name in "AB":
                lab.worker(name, work, lab.redis(), spared=name == spared)
            lab.at_end("what is begun is done", lambda: observer.get("done") or not observer.get("begun"))

        return scenario

    def outcomes():
        """By which one is spared; a search may also come to a state that no schedule leads to."""
        for name in "AB":
            try:
                yield explore(with_one_spared(name), crashes=1).outcome
            except AssertionError as error:
                yield str(error)

    assert list(outcomes()) == ["violated", "violated"]
    monkeypatch.setattr(WorkerPlan, "options", None)
    assert list(outcomes()) != ["violated", "violated"]


def test_a_walk_that_forgets_who_stepped_last_finds_ways_with_more_switches(monkeypatch):
    def ways(engine, found):
        return {name: shortest_way(engine, found.depths, *target) for name, target in found.targets.items()}

    def differs(seed):
        workers, program, budgets = random_case(seed)
        engine, found = searched(given_to(workers, program), budgets, None)
        right = {name: engine.schedule(codes).switches for name, codes in ways(engine, found).items()}
        with monkeypatch.context() as patch:
            patch.setattr(fewest_switches, "_who", lambda engine, way: None)
            wrong = {name: engine.schedule(codes).switches for name, codes in ways(engine, found).items()}
        engine.close()
        assert all(right[name] <= wrong[name] for name in right)
        return right != wrong

    with intercepted():
        assert any(differs(seed) for seed in range(RANDOM_CASES))
