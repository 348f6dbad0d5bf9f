"""Bad input gets an error that names what was wrong, where, and what to do."""

import itertools
import threading

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
        threading.Event().wait(600)

    with pytest.raises(WorkerStuck, match=r"at block, line \d+: threading.Event\(\).wait\(600\)"):
        explore(one_worker(block))


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


def test_a_worker_that_raises_is_recorded_and_the_search_goes_on():
    verdict = explore(one_worker(lambda r: r.incr(b"k") and undefined_name))  # noqa: F821
    assert verdict.outcome == "holds"
    assert "A raised NameError" in repr(verdict)


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
        (lambda r: r.pubsub().subscribe("c"), "SUBSCRIBE"),
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


def test_a_store_used_from_a_thread_of_a_worker_is_refused():
    failures = []

    def work(r):
        def use():
            try:
                r.get("k")
            except ScenarioError as error:
                failures.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        r.get("k")

    run(one_worker(work))
    assert "workers start no threads" in failures[0]


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
