"""`explore(…, executor=…)`: the verdict of a search alone, whoever visits the states, and in whatever order."""

import dataclasses
import functools
import marshal
import multiprocessing
import pickle
import random
import sys
import threading
import time
import types
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from unittest import mock

import pytest

from labkit import (
    LabError,
    Nondeterminism,
    PropertyError,
    ScenarioError,
    Unsupported,
    WorkerStuck,
    explore,
    portable_scenario,
    portable_state,
    run,
)
from labkit.interception import intercepted
from labkit.machine import Machine
from labkit.moment import Moment
from labkit.portable_scenario import pack_scenario, unpack_scenario
from labkit.search import progress, slices, spread
from labkit.stores.embedded_redis import Content, EmbeddedRedis
from labkit.stores.services import ServiceLog
from labkit.watchdog import watchdog
from tests import scenarios
from tests.programs import article_fix, naive_lock, sound_fix
from tests.scenarios import CASES, random_scenario

RANDOM_CASES = 12


class Later(Future):
    """A future that is computed, with all others that wait, when somebody asks for one of them."""

    def __init__(self, executor):
        super().__init__()
        self.executor = executor

    def result(self, timeout=None):
        self.executor.run()
        return super().result(timeout)


class Disorderly(Executor):
    """Runs what it is given late and backwards; given a source of chance, in any order, and at times afresh."""

    def __init__(self, chance=None):
        self.chance = chance
        self.waiting = []
        self.ran = self.most = 0

    def submit(self, function, /, *arguments):
        self.most = max(self.most, len(self.waiting) + 1)
        future = Later(self)
        self.waiting.append((future, pickle.dumps((function, arguments))))
        return future

    def run(self):
        if self.chance:
            self.chance.shuffle(self.waiting)
        while self.waiting:
            future, task = self.waiting.pop()
            if not future.set_running_or_notify_cancel():
                continue
            self.ran += 1
            try:
                future.set_result(pickle.loads(pickle.dumps(self.do(*pickle.loads(task)))))
            except BaseException as error:
                future.set_exception(pickle.loads(pickle.dumps(error)))

    def do(self, function, arguments):
        if self.chance is None or self.chance.random() < 0.9:
            return function(*arguments)
        slices._kept.search = ""  # as in a process that never saw this search
        with mock.patch.dict(slices.searched_here, clear=True):
            return function(*arguments)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Send even small layers away."""
    monkeypatch.setattr(spread, "SMALLEST_SLICE", 1)
    monkeypatch.setattr(spread, "SLICES_OF_A_LAYER", 3)


@pytest.fixture(scope="module")
def processes():
    """Two new processes: their hash seeds differ from this one's, and they share no memory with it."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def thread():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@functools.cache
def alone(name):
    scenario, options = CASES[name]
    return explore(scenario, **options)


def same(one, other):
    """Whether two verdicts differ in nothing but the time they took."""
    return repr(one) == repr(other) and dataclasses.replace(one, seconds=0) == dataclasses.replace(other, seconds=0)


# ---- the same verdict


@pytest.mark.parametrize("name", CASES)
def test_two_processes_come_to_the_same_verdict(name, processes):
    scenario, options = CASES[name]
    assert same(explore(scenario, executor=processes, **options), alone(name))


@pytest.mark.parametrize("name", ["article_fix", "stamped", "heartbeats", "told_to_stop"])
def test_a_thread_comes_to_the_same_verdict(name, thread):
    scenario, options = CASES[name]
    assert same(explore(scenario, executor=thread, **options), alone(name))


@pytest.mark.parametrize("name", CASES)
def test_visiting_slices_in_any_order_gives_the_same_verdict(name):
    scenario, options = CASES[name]
    for executor in (Disorderly(), Disorderly(random.Random(name))):
        assert same(explore(scenario, executor=executor, **options), alone(name))
        assert executor.ran > 5


@pytest.mark.parametrize("seed", range(RANDOM_CASES))
def test_random_programs_give_the_same_verdict(seed):
    scenario = functools.partial(random_scenario, seed)
    chance = random.Random(seed)
    options = {"crashes": chance.choice([0, 1]), "pauses": chance.choice([0, 1, None]), "lost_replies": 1}
    assert same(explore(scenario, executor=Disorderly(chance), **options), explore(scenario, **options))


def test_more_threads_take_turns():
    with ThreadPoolExecutor(3) as pool:
        assert same(explore(article_fix, executor=pool, crashes=1, pauses=1), alone("article_fix"))


def test_one_thread_at_a_time_has_the_labs_time():
    begun = threading.Event()

    def scenario(lab):
        begun.set()
        article_fix(lab)

    with ThreadPoolExecutor(1) as pool:
        with intercepted():
            verdict = pool.submit(explore, scenario, crashes=1, pauses=1)
            assert not begun.wait(0.2)
        assert verdict.result().outcome == "violated"


def test_two_threads_may_explore_at_the_same_time():
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda name: explore(CASES[name][0], **CASES[name][1]), ["three_locks", "stamped"])
    assert same(first, alone("three_locks"))
    assert same(second, alone("stamped"))


@pytest.mark.parametrize("limit", range(1, 160, 17))
def test_a_limit_of_states_cuts_both_searches_at_the_same_state(limit):
    options = {"crashes": 1, "pauses": 1, "max_states": limit}
    assert same(explore(article_fix, executor=Disorderly(), **options), explore(article_fix, **options))


def test_no_more_slices_are_under_way_than_memory_holds(monkeypatch):
    monkeypatch.setattr(spread, "MOST_UNDER_WAY", 3)
    executor = Disorderly()
    assert same(explore(article_fix, executor=executor, crashes=1, pauses=1), alone("article_fix"))
    assert executor.most == 3


def test_a_search_that_is_too_small_stays_at_home(monkeypatch):
    monkeypatch.undo()
    executor = Disorderly()
    explore(article_fix, executor=executor, crashes=1, pauses=1)
    assert executor.ran == 0


# ---- mutants: what a parcel forgets must show in the verdict


def forget_who_watches(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "portable", lambda self, state: Content(self.contents(state)))


def forget_expiries(monkeypatch):
    portable = EmbeddedRedis.portable

    def without(self, state):
        content = portable(self, state)
        return content._replace(entries=tuple((*entry[:3], None) for entry in content.entries))

    monkeypatch.setattr(EmbeddedRedis, "portable", without)


def forget_how_long_a_worker_still_sleeps(monkeypatch):
    histories = portable_state._histories

    def as_if_it_just_came(machine, column):
        links, numbers = histories(machine, column)
        for number, (place, _) in numbers.items():
            moment = machine.moments[number]
            numbers[number] = place, tuple(machine._waits(moment, actor) for actor in moment.situation.actors)
        return portable_state.Histories(links, numbers)

    monkeypatch.setattr(portable_state, "_histories", as_if_it_just_came)


def link_with(monkeypatch, change):
    link = Moment.link.fget
    monkeypatch.setattr(Moment, "link", property(lambda self: change(*link(self))))


def forget_what_was_written(monkeypatch):
    link_with(monkeypatch, lambda actor, reply, wrote, *rest: (actor, reply, False, *rest))


def forget_the_sections(monkeypatch):
    link_with(monkeypatch, lambda *link: (*link[:4], (*link[4][:-1], ())))


def forget_which_thread_had_the_reply(monkeypatch):
    link_with(monkeypatch, lambda actor, *link: (0, *link))


def forget_what_the_replica_lacks(monkeypatch):
    portable = EmbeddedRedis.portable
    monkeypatch.setattr(EmbeddedRedis, "portable", lambda self, state: portable(self, state)._replace(replica=()))


def forget_who_is_subscribed(monkeypatch):
    portable = EmbeddedRedis.portable
    monkeypatch.setattr(EmbeddedRedis, "portable", lambda self, state: portable(self, state)._replace(subscribers=()))


def forget_idempotency_keys(monkeypatch):
    portable = ServiceLog.portable
    without = lambda self, state: tuple(call._replace(idempotency_key=None) for call in portable(self, state))  # noqa: E731
    monkeypatch.setattr(ServiceLog, "portable", without)


def answer_without(monkeypatch, **fields):
    answer = slices._answer
    monkeypatch.setattr(slices, "_answer", lambda engine, errand: answer(engine, errand)._replace(**fields))


def forget_how_workers_ended(monkeypatch):
    answer_without(monkeypatch, told=[(False, set(), False)] * 3)


def forget_who_was_left_polling(monkeypatch):
    answer_without(monkeypatch, told=[(True, set(), False)] * 3)


def forget_which_sections_were_asked_about(monkeypatch):
    answer_without(monkeypatch, asked=set())


def remember_how_workers_ended_in_other_slices(monkeypatch):
    monkeypatch.setattr(Machine, "tell_again", lambda self: None)


def take_the_last_slice_in_first(monkeypatch):
    class Backwards(spread.deque):
        popleft = spread.deque.pop

        def __getitem__(self, place):
            return super().__getitem__(-1)

    monkeypatch.setattr(spread, "deque", Backwards)


MUTANTS = [
    (forget_who_watches, "watched_counter"),
    (forget_expiries, "article_fix"),
    (forget_how_long_a_worker_still_sleeps, "stamped"),
    (forget_what_was_written, "told_to_stop"),
    (forget_the_sections, "three_locks"),
    (forget_idempotency_keys, "payments_retried"),
    (forget_how_workers_ended, "different_errors"),
    (take_the_last_slice_in_first, "different_errors"),
    (remember_how_workers_ended_in_other_slices, "blocking_lock"),
    (forget_who_was_left_polling, "hopeless_poller"),
    (forget_which_sections_were_asked_about, "somebody_waits"),
    (forget_which_thread_had_the_reply, "heartbeats"),
    (forget_what_the_replica_lacks, "leases"),
    (forget_who_is_subscribed, "subscribers"),
]


@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_parcel_that_forgets_something_is_caught(mutant, name, monkeypatch):
    scenario, options = CASES[name]
    expected = alone(name)
    mutant(monkeypatch)
    try:
        verdict = explore(scenario, executor=Disorderly(), **options)
    except (Nondeterminism, AssertionError):
        return  # caught even without a comparison
    assert not same(verdict, expected)


# ---- errors, limits and interruption


def said(scenario, **options):
    """The verdict's text, or the error's type and text."""
    try:
        return repr(explore(scenario, **options))
    except LabError as error:
        return f"{type(error).__name__}: {error}"


ERRORS = [
    (scenarios.check_that_raises, PropertyError),
    (scenarios.checks_that_raise_in_the_same_layer, PropertyError),
    (scenarios.check_that_remembers, ScenarioError),
    (scenarios.unsupported_at_last, Unsupported),
]


@pytest.mark.parametrize(("scenario", "kind"), ERRORS, ids=lambda value: value.__name__)
def test_an_error_is_the_one_that_a_search_alone_meets_first(scenario, kind, processes):
    expected = said(scenario)
    assert expected.startswith(kind.__name__)
    assert said(scenario, executor=Disorderly()) == expected
    assert said(scenario, executor=processes) == expected


@pytest.mark.parametrize("limit", range(1, 60, 7))
def test_an_error_behind_the_limit_is_not_met(limit):
    options = {"max_states": limit}
    assert said(scenarios.check_that_raises, executor=Disorderly(), **options) == said(
        scenarios.check_that_raises, **options
    )


def test_a_worker_that_gets_stuck_is_named(monkeypatch):
    monkeypatch.setattr(watchdog, "patience", 0.2)
    with pytest.raises(WorkerStuck, match=r"worker . used 0\.2 seconds of real time .* compute_for_ever"):
        explore(scenarios.stuck_at_last, executor=Disorderly())


def test_a_worker_that_does_something_else_in_another_process_is_caught(processes):
    assert explore(scenarios.depends_on_its_process).outcome == "holds"
    with pytest.raises(Nondeterminism, match=r"worker . behaves differently .*SET me"):
        explore(scenarios.depends_on_its_process, executor=processes)


def test_a_world_that_is_another_one_in_another_process_is_caught(processes):
    with pytest.raises(Nondeterminism, match="the scenario builds another world in a process of the executor"):
        explore(scenarios.built_by_its_process, executor=processes)


class Interrupted(Disorderly):
    """Ctrl-C comes while the search waits for the tenth slice."""

    def run(self):
        if self.ran >= 10 and self.waiting:
            raise KeyboardInterrupt
        super().run()


def test_an_interrupted_search_says_what_it_found_and_withdraws_the_rest():
    executor = Interrupted()
    verdict = explore(sound_fix, executor=executor, crashes=1, pauses=1)
    assert (verdict.outcome, verdict.stopped) == ("undetermined", "interrupted")
    assert verdict.unvisited > 0
    assert executor.waiting
    assert all(future.cancelled() for future, _ in executor.waiting)


class Asleep(Executor):
    """Never runs anything."""

    def __init__(self):
        self.futures = []

    def submit(self, function, /, *arguments):
        self.futures.append(Future())
        return self.futures[-1]


def test_a_limit_of_seconds_holds_for_an_executor_that_never_answers():
    executor = Asleep()
    verdict = explore(article_fix, executor=executor, crashes=1, max_seconds=0.01)
    assert verdict.stopped == "limit of seconds"
    assert executor.futures
    assert all(future.cancelled() for future in executor.futures)


def test_a_limit_of_memory_is_checked_between_slices():
    verdict = explore(naive_lock_of_four, executor=Disorderly(), max_megabytes=1)
    assert verdict.stopped == "limit of 1 megabytes"
    assert verdict.unvisited > 0


def test_a_progress_bar_shows_how_far_it_came(monkeypatch, capsys):
    seconds = iter(range(10**6))
    monkeypatch.setenv("LABKIT_PROGRESS", "1")
    monkeypatch.setattr(progress, "_real_clock", lambda: next(seconds))
    explore(naive_lock_of_four, executor=Disorderly())
    assert "to follow up, at most 500,000" in capsys.readouterr().err


@pytest.mark.parametrize("executor", [2, "processes"])
def test_what_is_no_executor_is_refused(executor):
    with pytest.raises(ScenarioError, match=r"executor is a concurrent.futures.Executor, not .* client.get_executor"):
        explore(article_fix, executor=executor)


# ---- a scenario on its way


naive_lock_of_four = naive_lock("ABCD")


def test_a_scenario_travels_by_its_own_name_by_another_name_and_as_a_partial():
    for scenario in (scenarios.stamped, naive_lock_of_four, unpack_scenario):
        assert unpack_scenario(pack_scenario(scenario)) is scenario
    partial = functools.partial(scenarios.random_scenario, 3)
    assert unpack_scenario(pack_scenario(partial)).args == partial.args


def test_a_scenario_that_no_module_knows_is_refused_with_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ScenarioError, match="Write it with `def` at the top level of a module"):
        explore(naive_lock("AB"), executor=Disorderly())


def test_a_process_that_cannot_load_the_scenario_says_so(monkeypatch):
    parcel = pack_scenario(naive_lock_of_four)
    monkeypatch.delattr(sys.modules[__name__], "naive_lock_of_four")
    with pytest.raises(ScenarioError, match=r"cannot load the scenario \(AttributeError"):
        unpack_scenario(parcel)


@pytest.mark.parametrize("changed", ["count_to", "counting"])
def test_a_process_with_another_version_of_the_code_says_so(changed, monkeypatch):
    parcel = pack_scenario(scenarios.check_that_raises)
    other = types.FunctionType(scenarios.fussy.__code__, vars(scenarios), changed)
    monkeypatch.setattr(scenarios, changed, other)
    with pytest.raises(ScenarioError, match="another version of the scenario"):
        unpack_scenario(parcel)


def rebuilt(code, **variables):
    """A function by value, as cloudpickle makes it: from its code, with global variables of its own."""
    return types.FunctionType(marshal.loads(code), {"__builtins__": __builtins__, **variables})


class ByValue:
    def __init__(self, function, **variables):
        self.function, self.variables = function, variables

    def __reduce__(self):
        return functools.partial(rebuilt, **self.variables), (marshal.dumps(self.function.__code__),)


def test_what_a_scenario_by_value_copied_from_time_is_the_labs_too():
    def sleepy(lab):
        def work(r):
            sleep(3600)  # noqa: F821
            r.set("k", "v")

        lab.worker("A", work, lab.redis())

    carried = pickle.dumps((pickle.dumps(ByValue(sleepy, sleep=time.sleep)), portable_scenario.fingerprint(sleepy)))
    assert str(run(unpack_scenario(carried)).schedule) == "clock A A"


def test_functions_of_a_module_that_a_scenario_uses_are_replaced_during_a_search_only(monkeypatch):
    """A decorator's function says that it is the scenario's module's, and has global variables of its own module."""
    decorators = types.ModuleType("decorators")
    exec(
        "from functools import wraps\n"
        "from time import sleep\n"
        "def slowly(build):\n"
        "    @wraps(build)\n"
        "    def scenario(lab): build(lab)\n"
        "    return scenario\n",
        vars(decorators),
    )
    monkeypatch.setitem(sys.modules, "decorators", decorators)
    monkeypatch.setattr(scenarios, "stamped", decorators.slowly(scenarios.stamped))
    assert unpack_scenario(pack_scenario(scenarios.stamped)) is scenarios.stamped
    assert decorators.sleep is time.sleep


# ---- Dask


def test_a_dask_cluster_comes_to_the_same_verdict():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (extra `dask`)")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        for name in ("article_fix", "stamped"):
            scenario, budgets = CASES[name]
            assert same(explore(scenario, executor=client.get_executor(), **budgets), alone(name))
        local = naive_lock("ABC")  # sent by value
        assert same(explore(local, executor=client.get_executor(), crashes=1), alone("three_locks"))
