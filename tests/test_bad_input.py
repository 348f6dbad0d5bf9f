"""Bad input gets an error that names what was wrong, where, and what to do."""

import _thread
import contextlib
import itertools
import logging
import math
import random
import select
import signal
import sys
import uuid

import pytest

from labkit import Nondeterminism, PropertyError, ScenarioError, Unsupported, WorkerStuck, explore, replay, run
from labkit.watchdog import watchdog


def one_worker(work, *arguments):
    def scenario(lab):
        lab.worker("A", work, lab.redis(), *arguments)
        lab.always("true", lambda: True)

    return scenario


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(watchdog, "patience", 0.5)


def test_a_scenario_without_workers_is_refused():
    with pytest.raises(ScenarioError, match="has no workers"):
        explore(lambda lab: None)


@pytest.mark.parametrize("name", ["clock", "two words", "crash:A", "", 3])
def test_a_bad_worker_name_is_refused(name):
    with pytest.raises(ScenarioError, match="cannot name a worker"):
        run(lambda lab: lab.worker(name, print))


def test_two_workers_of_one_name_are_refused():
    with pytest.raises(ScenarioError, match="two workers called 'A'"):
        run(lambda lab: [lab.worker("A", print), lab.worker("A", print)])


def test_a_worker_that_was_called_instead_of_passed_is_refused():
    with pytest.raises(ScenarioError, match="did you call it"):
        run(lambda lab: lab.worker("A", None))


@pytest.mark.parametrize(("budget", "value"), [("crashes", -1), ("crashes", True), ("pauses", -2), ("pauses", "x")])
def test_a_bad_budget_is_refused(budget, value):
    with pytest.raises(ScenarioError, match=f"{budget} is a number"):
        explore(one_worker(lambda r: r.get("k")), **{budget: value})


def test_a_worker_that_computes_for_ever_is_stopped_and_its_line_named(impatient):
    def spin(r):
        r.get("k")
        while True:
            pass

    with pytest.raises(WorkerStuck, match=r"worker A used 0.5 seconds .* at spin, line \d+: (while True|pass)"):
        explore(one_worker(spin))


def test_a_worker_that_blocks_for_real_is_stopped_and_its_line_named(impatient):
    def block(r):
        r.get("k")
        select.select([], [], [], 600)

    with pytest.raises(WorkerStuck, match=r"at block, line \d+: select.select"):
        explore(one_worker(block))


def test_a_worker_that_computes_nothing_may_be_waiting_for_a_busy_machine_and_is_given_more_time(impatient):
    def wait(r):
        r.get("k")
        select.select([], [], [], 0.75)

    assert explore(one_worker(wait)).outcome == "holds"


def test_a_set_up_and_a_check_that_never_end_are_stopped_and_named(impatient):
    def endless():
        while True:
            pass

    with pytest.raises(WorkerStuck, match=r"the scenario's set-up used 0\.5 seconds"):
        explore(lambda lab: endless())

    def scenario(lab):
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("decided", endless)

    with pytest.raises(WorkerStuck, match=r"the check of a property used 0\.5 seconds"):
        explore(scenario)


def test_a_worker_that_behaves_differently_when_it_is_run_again_is_named_with_the_step():
    counter = itertools.count()

    def restless(r):
        r.get("k")
        r.set("k", next(counter))
        if r.get("k") == b"x":
            r.get("y")

    def scenario(lab):
        lab.worker("A", restless, lab.redis())
        lab.worker("B", lambda r: r.set("k", "x"), lab.redis())
        lab.always("true", lambda: True)

    with pytest.raises(
        Nondeterminism, match=r"worker A behaves differently .* step 2 was 'SET k \d' and now is 'SET k \d'"
    ):
        explore(scenario)


def test_a_set_up_that_differs_when_it_is_built_again_is_named():
    counter = itertools.count()

    def scenario(lab):
        lab.redis().set("k", next(counter))
        lab.worker("A", lambda r: r.get("k"), lab.redis())

    with pytest.raises(Nondeterminism, match="set-up does something else, 'SET k 1', when it is built again"):
        run(scenario)


def test_a_set_up_that_leaves_something_out_is_named():
    counter = itertools.count()

    def scenario(lab):
        if next(counter) == 0:
            lab.redis().set("k", 1)
        lab.worker("A", lambda r: r.get("k"), lab.redis())

    with pytest.raises(Nondeterminism, match="leaves out 'SET k 1' when it is built again"):
        run(scenario)


def test_a_worker_that_changes_what_no_search_can_see_is_noticed_before_a_verdict():
    """The longest history is run once more, although nothing in the search needed it."""
    counter = itertools.count()

    with pytest.raises(Nondeterminism, match="behaves differently"):
        explore(one_worker(lambda r: r.set("k", next(counter))))


def test_a_bad_limit_of_seconds_is_refused():
    with pytest.raises(ScenarioError, match="max_seconds is a number above 0"):
        explore(one_worker(lambda r: r.get("k")), max_seconds=0)


def test_a_worker_that_raises_before_its_first_step_is_told_by_a_run_and_a_replay_too():
    def scenario(lab):
        lab.worker("A", lambda r: undefined, lab.redis())  # noqa: F821
        lab.worker("B", lambda r: r.get("k"), lab.redis())
        lab.always("calm", lambda: True)

    for trace in (run(scenario), replay(scenario, "B"), replay(scenario, "")):
        assert "A raised NameError: name 'undefined' is not defined" in trace.headline
        assert trace.headline.endswith("before its first step.")
        assert "before its first step" in trace.lanes().alt
    assert "before its first step" not in explore(scenario).headline


def test_a_worker_that_raises_is_recorded_and_the_search_goes_on():
    verdict = explore(one_worker(lambda r: r.incr(b"k") and undefined_name))  # noqa: F821
    assert verdict.outcome == "undetermined"
    assert "A raised NameError" in repr(verdict)
    assert verdict.stopped is None


def test_a_server_error_reaches_the_worker_as_redis_py_raises_it():
    def work(r):
        r.set("k", "text")
        r.incr("k")

    trace = run(one_worker(work))
    assert trace.events[-1].ending.error == "ResponseError: value is not an integer or out of range"


def test_a_list_given_to_two_workers_is_refused():
    shared = []

    def scenario(lab):
        lab.worker("A", lambda r, seen: None, lab.redis(), shared)
        lab.worker("B", lambda r, seen: None, lab.redis(), shared)

    with pytest.raises(ScenarioError, match=r"worker B is given the same list as worker A.*keep it in Redis"):
        run(scenario)


def test_a_list_that_two_workers_close_over_is_refused():
    def scenario(lab):
        seen = []

        def work(r):
            seen.append(r.get("k"))

        for name in "AB":
            lab.worker(name, work, lab.redis())

    with pytest.raises(ScenarioError, match="the same list"):
        run(scenario)


def test_an_object_whose_methods_are_two_workers_is_refused():
    class Counter:
        def work(self):
            pass

    def scenario(lab):
        counter = Counter()
        for name in "AB":
            lab.worker(name, counter.work)

    with pytest.raises(ScenarioError, match="the same Counter"):
        run(scenario)


RETRIES = [1, 2, 4]
SEEN = set()


def test_a_constant_global_list_is_fine_and_a_changed_one_is_refused():
    def constant(r):
        r.set("k", sum(RETRIES))

    def changing(r):
        SEEN.add(r.get("k"))

    assert run(one_worker(constant)).events[0].text == "SET k 7"
    with pytest.raises(ScenarioError, match="changes the global variable 'SEEN'"):
        run(one_worker(changing))
    SEEN.clear()


def test_a_worker_that_assigns_a_global_is_refused():
    def work(r):
        global COUNT
        COUNT = r.incr("k")

    with pytest.raises(ScenarioError, match="assigns the global variable 'COUNT'"):
        run(one_worker(work))


def test_clients_and_services_may_be_shared():
    def scenario(lab):
        r = lab.redis()

        def work():
            r.incr("k")
            lab.mail.send("x")

        for name in "AB":
            lab.worker(name, work)
        lab.at_end("both counted", lambda: r.get("k") == b"2" and lab.mail.count() == 2)

    assert explore(scenario).outcome == "holds"


def test_a_property_that_raises_is_named_with_its_line():
    def scenario(lab):
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("a number", lambda: int(None) > 0)

    with pytest.raises(PropertyError, match=r"property 'a number' raised TypeError.*line \d+: .*int\(None\)"):
        explore(scenario)


def test_a_property_that_writes_is_refused():
    def scenario(lab):
        r = lab.redis()
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("reads only", lambda: r.incr("k") > 0)

    with pytest.raises(PropertyError, match="changes the store with 'INCR"):
        explore(scenario)


def test_a_property_that_answers_nothing_is_refused():
    def scenario(lab):
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("forgot to return", lambda: None)

    with pytest.raises(PropertyError, match="'forgot to return' answered None"):
        explore(scenario)


def test_a_property_that_was_called_instead_of_passed_is_refused():
    with pytest.raises(ScenarioError, match="needs a function to call, not True"):
        run(lambda lab: lab.always("p", True))


def test_two_properties_of_one_name_are_refused():
    with pytest.raises(ScenarioError, match="two properties called 'p'"):
        run(lambda lab: [lab.always("p", lambda: True), lab.at_end("p", lambda: True)])


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (lambda r: r.pubsub().ssubscribe("c"), "SSUBSCRIBE"),
        (lambda r: r.execute_command("SELECT", 1), "SELECT"),
        (lambda r: r.execute_command("MULTI"), "MULTI"),
    ],
)
def test_what_the_lab_does_not_model_is_refused_by_name(command, name):
    with pytest.raises(Unsupported, match=f"does not model {name}"):
        run(one_worker(command))


def test_a_value_that_the_lab_does_not_model_is_refused():
    with pytest.raises(Unsupported, match="key 'h' holds a Hash"):
        run(one_worker(lambda r: r.hset("h", "f", 1) and r.hexpire("h", 10, "f")))


def test_a_blocking_read_from_now_on_is_refused_with_what_to_do():
    with pytest.raises(Unsupported, match="read the stream's last id first"):
        run(one_worker(lambda r: r.xread({"s": "$"}, block=5)))


def test_another_database_is_refused():
    with pytest.raises(Unsupported, match="one Redis database"):
        run(lambda lab: lab.redis(db=3))


def test_a_section_outside_of_a_worker_is_refused():
    def scenario(lab):
        with lab.section("x"):
            pass

    with pytest.raises(ScenarioError, match="outside of any worker"):
        run(scenario)


def test_a_store_used_from_a_thread_of_a_worker_is_refused_although_the_thread_swallows_it():
    def work(r):
        done = []

        def use():
            with contextlib.suppress(Exception):
                r.get("k")
            done.append(True)

        _thread.start_new_thread(use, ())
        while not done:
            select.select([], [], [], 0.01)  # for real: the thread is none of the lab's
        r.get("k")

    with pytest.raises(ScenarioError, match="workers start no threads"):
        run(one_worker(work))


@pytest.mark.parametrize("swallow", [Exception, BaseException])
def test_a_refusal_that_a_worker_swallows_is_raised_all_the_same(swallow):
    def work(r):
        with contextlib.suppress(swallow):
            r.pubsub().ssubscribe("c")

    with pytest.raises(Unsupported, match="does not model SSUBSCRIBE"):
        explore(one_worker(work))


def test_a_worker_that_is_a_coroutine_or_a_generator_is_refused():
    async def coroutine(r):
        r.set("k", 1)

    def generator(r):
        yield r.set("k", 1)

    with pytest.raises(ScenarioError, match="worker A only made a coroutine object"):
        explore(one_worker(coroutine))
    with pytest.raises(ScenarioError, match="worker A only made a generator object"):
        explore(one_worker(generator))


def test_a_network_connection_of_a_workers_own_is_refused_before_anything_is_sent():
    import redis

    with pytest.raises(Unsupported, match=r"worker A opens a network connection: use `lab.redis\(\)`"):
        run(one_worker(lambda r: redis.Redis(port=1).set("k", 1)))


def test_asyncio_in_a_worker_is_refused():
    import asyncio

    def work(r):
        loop = asyncio.new_event_loop()
        try:
            loop.run_forever()
        finally:
            loop.close()

    with pytest.raises(Unsupported, match="worker A uses asyncio"):
        run(one_worker(work))


@pytest.mark.parametrize(
    "command", [("MOVE", "k", 1), ("COPY", "k", "l", "DB", 1), ("SPUBLISH", "c", "m"), ("NONSENSE",)]
)
def test_commands_that_leave_the_model_are_refused(command):
    with pytest.raises(Unsupported):
        run(one_worker(lambda r: r.set("k", 1) and r.execute_command(*command)))


def test_a_script_that_selects_another_database_is_refused():
    with pytest.raises(Unsupported, match="this command uses another"):
        run(one_worker(lambda r: r.eval("redis.call('select', 1) return redis.call('set', 'k', 1)", 0)))


def test_a_worker_that_swallows_its_own_end_in_a_loop_does_not_hang_the_search():
    def stubborn(r):
        while True:
            with contextlib.suppress(BaseException):
                r.get("k")

    verdict = explore(one_worker(stubborn), max_states=60)
    assert verdict.outcome == "undetermined"


def test_a_loop_without_sleep_is_cut_short_with_a_guess_at_why():
    def loop(r):
        while r.get("never") is None:
            pass

    verdict = explore(one_worker(loop))
    assert verdict.stopped == "limit of 2,000 steps by one worker: does it loop for ever?"


def test_a_client_option_that_the_lab_does_not_know_is_refused():
    with pytest.raises(ScenarioError, match=r"lab\.redis does not take host, ssl"):
        run(lambda lab: lab.redis(host="x", ssl=True))
    with pytest.raises(ScenarioError, match="retries is a number"):
        run(lambda lab: lab.redis(retries="x"))


def test_a_property_stated_inside_a_worker_is_refused():
    def scenario(lab):
        lab.worker("A", lambda r: lab.always("p", lambda: False), lab.redis())

    with pytest.raises(ScenarioError, match="stands inside worker A"):
        explore(scenario)


def test_a_section_that_nobody_enters_is_noted():
    def scenario(lab):
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("one inside", lambda: lab.inside("typo") <= 1)

    assert "Nobody ever enters the section 'typo'" in repr(explore(scenario))


def test_a_worker_is_inside_a_section_once_however_often_it_enters():
    def scenario(lab):
        def work(r):
            with lab.section("s"), lab.section("s"):
                r.get("k")

        lab.worker("A", work, lab.redis())
        lab.always("one inside", lambda: lab.inside("s") <= 1)

    assert explore(scenario).outcome == "holds"


def test_a_property_may_ask_the_server_for_the_time():
    def scenario(lab):
        observer = lab.redis()
        lab.worker("A", lambda r: r.set("k", 1, ex=5), lab.redis())
        lab.always("time goes on", lambda: observer.time()[0] >= 1_767_258_000)

    assert explore(scenario).outcome == "holds"


@pytest.mark.parametrize("bad", [{"max_states": None}, {"max_states": "a"}, {"max_seconds": "x"}, {"seed": "x"}])
def test_bad_arguments_of_explore_are_refused(bad):
    with pytest.raises(ScenarioError):
        explore(one_worker(lambda r: r.get("k")), **bad)


def test_a_scenario_that_takes_no_lab_is_refused():
    with pytest.raises(ScenarioError, match="called with one argument, a Lab"):
        explore(lambda: None)


def test_a_worker_that_changes_a_global_is_refused_every_time():
    def work(r):
        r.get("z")
        GLOBAL["x"] = 1

    for _ in range(2):
        with pytest.raises(ScenarioError, match="changes the global variable 'GLOBAL'"):
            explore(one_worker(work))
    assert GLOBAL == {}


GLOBAL = {}


class Shared:
    last = None
    log = []  # noqa: RUF012


def test_a_worker_that_changes_a_class_is_refused_every_time():
    def assign(r):
        r.get("z")
        Shared.last = 1

    def append(r):
        Shared.log.append(r.get("z"))

    for work in (assign, append, assign):
        with pytest.raises(ScenarioError, match="changes an attribute of the class Shared"):
            explore(one_worker(work))
    assert (Shared.last, Shared.log) == (None, [])


def test_a_property_may_keep_its_clients_in_a_list_or_a_dict():
    def scenario(lab):
        clients = [lab.redis() for _ in "AB"]
        named = {"db": lab.sql(), "mail": lab.mail, "lock": clients[0].lock("L"), "module": itertools}
        for name, client in zip("AB", clients, strict=True):
            lab.worker(name, lambda r: r.incr("n"), client)
        lab.at_end("2", lambda: int(clients[0].get("n")) == 2 and len(named) == 4)

    assert explore(scenario).outcome == "holds"


def test_logging_is_captured_and_shown_in_the_log_alone(capsys):
    handler = logging.StreamHandler(sys.__stderr__)
    logging.root.addHandler(handler)
    try:
        trace = run(one_worker(lambda r: logging.getLogger("worker").warning("got %s", r.get("k"))))
    finally:
        logging.root.removeHandler(handler)
    assert trace.log() == "     0 s A: got None"
    assert capsys.readouterr().err == ""
    assert handler.stream is sys.__stderr__


def test_a_property_that_looks_at_a_variable_of_a_worker_is_refused():
    def assigned(lab):
        done = False

        def work(r):
            nonlocal done
            r.get("k")
            done = True

        lab.worker("A", work, lab.redis())
        lab.always("never done", lambda: not done)

    def appended(lab):
        log = []
        lab.worker("A", lambda r, log: log.append(r.get("k")), lab.redis(), log)
        lab.always("nothing logged", lambda: not log)

    for scenario in (assigned, appended):
        with pytest.raises(ScenarioError, match=r"property .* looks at .* worker A"):
            explore(scenario)


def test_a_check_that_keeps_a_memory_is_refused():
    def scenario(lab):
        observer, seen = lab.redis(), []

        def check():
            seen.append(observer.get("s"))
            return seen.count(b"1") < 2

        lab.worker("A", lambda r: r.set("s", 1), lab.redis())
        lab.worker("B", lambda r: r.set("s", 2), lab.redis())
        lab.always("1 comes once", check)

    with pytest.raises(ScenarioError, match="keeps a memory of its own"):
        explore(scenario)


def test_what_is_no_scenario_is_refused():
    with pytest.raises(ScenarioError, match="a scenario is a function"):
        explore("two_workers")


def test_a_worker_that_polls_for_ever_ends_a_run():
    def poll(r):
        while r.get("never") is None:
            pass

    assert not run(one_worker(poll)).over


def test_replaying_an_error_leaves_the_process_as_it_was():
    import time

    before = time.time, time.sleep
    with pytest.raises(ScenarioError):
        explore(lambda lab: None)
    with pytest.raises(Exception, match="no worker"):
        replay(one_worker(lambda r: r.get("k")), "Z")
    assert (time.time, time.sleep) == before


@pytest.mark.parametrize("time", [math.inf, math.nan, "soon"])
def test_a_deadline_that_is_no_time_is_refused(time):
    def scenario(lab):
        lab.worker("A", lambda r: (r.get("k"), r.get("l")), lab.redis())
        lab.always("true", lambda: True)
        lab.deadlines(lambda: [time])

    with pytest.raises(PropertyError, match="returns times in seconds"):
        explore(scenario, pauses=1)


def test_a_set_up_may_draw_at_random_since_it_draws_the_same_each_time():
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("job", uuid.uuid4().hex)
        for name in "AB":
            lab.worker(name, lambda r: r.get("job"), lab.redis())
        jobs.set("other", random.random())
        lab.always("true", lambda: True)

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert repr(run(scenario, seed=1)) == repr(run(scenario, seed=1))


def test_an_endless_loop_is_named_where_the_program_ignores_ctrl_c(monkeypatch):
    """So it is when a shell has started it in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(watchdog, "patience", 0.3)

    def spin(r):
        while True:
            pass

    try:
        with pytest.raises(WorkerStuck, match="without taking a step"):
            explore(one_worker(spin))
    finally:
        signal.signal(signal.SIGINT, before)
