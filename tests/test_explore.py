"""What `explore` says of the status race and its fixes."""

import dataclasses
import time

import pytest

from labkit import Lab, explore, replay
from labkit.interception import intercepted
from tests.programs import (
    LOCK,
    STATUS,
    article_fix,
    naive,
    naive_lock,
    retry_once,
    sound_completion,
    sound_fix,
    status_race,
)

TWICE = "the event is published at most once"
LOST = "a completed job's event was published"
HOLDERS = "at most one worker holds the lock"


def test_the_naive_completion_publishes_twice_within_six_steps():
    verdict = explore(naive)
    assert verdict.outcome == "violated"
    assert verdict.counterexample.length == 6
    assert verdict.counterexample.violation.property == TWICE


def test_the_articles_fix_fails_in_three_ways_each_within_nine_steps():
    verdict = explore(article_fix, crashes=1, pauses=1)
    lengths = {name: trace.length for name, trace in verdict.violations.items()}
    assert lengths == {TWICE: 9, HOLDERS: 3, LOST: 5}


def test_the_articles_fix_needs_the_fault_that_breaks_it():
    assert explore(article_fix).outcome == "holds"
    assert set(explore(article_fix, crashes=1).violations) == {LOST}
    assert LOST not in explore(article_fix, pauses=1).violations


def test_the_sound_fix_holds_with_one_crash_and_one_pause():
    verdict = explore(sound_fix, crashes=1, pauses=1)
    assert verdict.outcome == "holds"
    assert str(verdict).startswith("3 workers (R spared), at most 1 crash, at most 1 pause: holds in all ")


def test_a_retry_that_gives_up_on_a_busy_lock_is_not_enough():
    verdict = explore(status_race(sound_completion, retry=retry_once), crashes=1, pauses=1)
    assert set(verdict.violations) == {LOST, "the job is completed"}


def test_the_counterexample_is_the_one_with_the_fewest_switches():
    schedule = explore(naive).counterexample.schedule
    assert str(schedule) == "A B B B A A"
    assert schedule.switches == 2


def test_a_search_that_is_cut_short_is_undetermined_and_says_what_was_left():
    verdict = explore(sound_fix, crashes=1, pauses=1, max_states=20)
    assert verdict.outcome == "undetermined"
    assert verdict.unvisited > 0
    assert "cut short (limit of 20 states)" in repr(verdict)


@pytest.mark.parametrize("limit", [5, 10, 20, 40, 80])
def test_a_smaller_budget_never_turns_violated_into_holds(limit):
    assert explore(article_fix, crashes=1, pauses=1, max_states=limit).outcome != "holds"


def test_a_search_whose_executions_never_end_is_undetermined():
    def scenario(lab):
        def wait(r):
            while r.get("never") is None:
                pass

        lab.worker("A", wait, lab.redis())
        lab.at_end("true", lambda: True)

    assert explore(scenario, max_states=50).outcome == "undetermined"


def test_a_limit_of_seconds_cuts_the_search_short_and_says_so(monkeypatch):
    from labkit.search import limits

    hours = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(limits, "_real_clock", lambda: next(hours))
    verdict = explore(naive_lock("ABCD"), max_seconds=10, symmetry=False)
    assert verdict.stopped == "limit of seconds"
    assert verdict.unvisited > 0


def test_a_limit_of_memory_cuts_the_search_short_and_says_so():
    verdict = explore(naive_lock("ABCD"), max_megabytes=1, symmetry=False)
    assert verdict.stopped == "limit of 1 megabytes"
    assert verdict.unvisited > 0
    assert explore(naive_lock("AB"), max_megabytes=100_000).stopped is None


def test_a_progress_bar_comes_after_a_second_and_goes_at_the_end(monkeypatch, capsys):
    from labkit.search import progress

    seconds = iter(range(10**6))
    monkeypatch.setenv("LABKIT_PROGRESS", "1")
    monkeypatch.setattr(progress, "_real_clock", lambda: next(seconds))
    explore(naive_lock("ABCDE"), max_states=9_000, symmetry=False)
    assert "to follow up, at most 9,000" in capsys.readouterr().err
    monkeypatch.setenv("LABKIT_PROGRESS", "0")
    explore(naive_lock("ABCDE"), max_states=9_000, symmetry=False)
    assert capsys.readouterr().err == ""


def test_a_spared_worker_is_neither_killed_nor_paused():
    def scenario(spared):
        def build(lab):
            jobs = lab.redis()

            def work(r):
                if r.set("lease", "mine", nx=True, ex=30):
                    r.set("done", int(bool(r.exists("lease"))))

            lab.worker("A", work, lab.redis(), spared=spared)
            lab.worker("B", lambda r: r.get("k"), lab.redis())
            lab.at_end("done within the lease", lambda: jobs.get("done") == b"1")

        return build

    assert explore(scenario(spared=True), crashes=2, pauses=None).outcome == "holds"
    assert len(explore(scenario(spared=False), crashes=1).violations) == 1
    assert len(explore(scenario(spared=False), pauses=1).violations) == 1


def test_a_property_that_the_set_up_breaks_is_broken_before_any_step():
    def scenario(lab):
        lab.worker("A", lambda r: r.get("k"), lab.redis())
        lab.always("k exists", lambda: lab.redis().exists("k"))

    trace = explore(scenario).counterexample
    assert trace.length == 0
    assert str(trace.violation) == "'k exists' does not hold in the set-up"


def test_an_interrupted_search_is_undetermined_with_what_was_found_so_far(monkeypatch):
    from labkit.engine import Engine

    moves, calls = Engine.moves, []

    def interrupting(engine, state):
        calls.append(state)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return moves(engine, state)

    monkeypatch.setattr(Engine, "moves", interrupting)
    verdict = explore(sound_fix, crashes=1, pauses=1)
    assert verdict.outcome == "undetermined"
    assert verdict.stopped == "interrupted"
    assert 20 < verdict.states < 100
    assert "interrupted" in str(verdict)


def test_an_interrupt_keeps_the_violations_found_before_it(monkeypatch):
    from labkit.engine import Engine
    from labkit.search import every_schedule

    moves = Engine.moves
    real_run = every_schedule.BreadthFirst.run

    def run_interrupted(search):
        def interrupting(engine, state):
            if search.found.targets:
                monkeypatch.setattr(Engine, "moves", moves)
                raise KeyboardInterrupt
            return moves(engine, state)

        monkeypatch.setattr(Engine, "moves", interrupting)
        return real_run(search)

    monkeypatch.setattr(every_schedule.BreadthFirst, "run", run_interrupted)
    verdict = explore(article_fix, crashes=1, pauses=1)
    assert verdict.outcome == "violated"
    assert verdict.stopped == "interrupted"
    assert "cut short (interrupted)" in repr(verdict)


def test_beside_a_violation_nothing_is_said_to_hold_that_was_not_searched():
    import time
    from xml.etree import ElementTree

    from labkit.reports import as_junit

    def cut_poller(lab):
        jobs = lab.redis()

        def poll(r):
            for _ in range(9):
                if r.get("never"):
                    return
                time.sleep(1)
            r.set("gave up", 1)

        lab.worker("A", poll, lab.redis())
        lab.worker("B", lambda r: r.set("k", 1), lab.redis())
        lab.always("k is never set", lambda: not jobs.exists("k"))
        lab.always("never gives up", lambda: not jobs.exists("gave up"))

    verdict = explore(cut_poller)
    assert set(verdict.violations) == {"k is never set"}
    assert "Held in all states" not in repr(verdict)
    assert "Undetermined: 'never gives up': A polled without news" in repr(verdict)
    suite = ElementTree.fromstring(as_junit(verdict))
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    assert set(explore(cut_poller, polls=20).violations) == {"k is never set", "never gives up"}


def test_verdicts_and_their_text_are_the_same_every_time():
    assert repr(explore(article_fix, crashes=1, pauses=1)) == repr(explore(article_fix, crashes=1, pauses=1))


def test_the_verdict_leaves_seconds_out_of_its_text():
    verdict = explore(naive)
    slower = dataclasses.replace(verdict, seconds=verdict.seconds + 12345)
    assert repr(slower) == repr(verdict)
    assert slower._repr_html_() == verdict._repr_html_()


def test_three_naive_workers_are_searched_completely():
    verdict = explore(naive_lock("ABC"))
    assert verdict.outcome == "violated"
    assert verdict.unvisited == 0
    assert verdict.counterexample.length == 4


def test_a_remembering_property_sees_a_terminal_status_change():
    def scenario(lab: Lab):
        jobs = lab.redis()
        jobs.set(STATUS, "in-progress")
        lab.worker("A", lambda r: r.set(STATUS, "completed"), lab.redis())
        lab.worker("late", lambda r: r.set(STATUS, "in-progress"), lab.redis())
        lab.always(
            "a completed job stays completed",
            lambda before, now: before != b"completed" or now == b"completed",
            remember=lambda: jobs.get(STATUS),
        )

    verdict = explore(scenario)
    assert verdict.outcome == "violated"
    assert str(verdict.counterexample.schedule) == "A late"
    assert verdict.counterexample.violation.number == 2


def test_a_worker_that_raises_is_noted_and_the_verdict_still_holds():
    def scenario(lab):
        def work(r):
            r.set("k", "v")
            raise RuntimeError("out of paper")

        lab.worker("A", work, lab.redis())
        lab.worker("B", lambda r: r.get("k"), lab.redis())
        lab.always("true", lambda: True)

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert "A raised RuntimeError: out of paper" in repr(verdict)
    assert "raise RuntimeError" in repr(verdict)
    trace = replay(scenario, "A B")
    assert trace.events[0].ending.error == "RuntimeError: out of paper"
    assert "raised RuntimeError: out of paper" in trace.table()


def test_pauses_none_lets_time_pass_at_any_point():
    def scenario(lab):
        def work(r):
            if r.set(LOCK, "A", nx=True, ex=30):
                with lab.section("holding"):
                    for _ in range(3):
                        time.sleep(5)
                        r.expire(LOCK, 30)

        import time

        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.always("one holder", lambda: lab.inside("holding") <= 1)

    assert explore(scenario, pauses=0).outcome == "holds"
    assert explore(scenario, pauses=None).outcome == "violated"


def test_the_number_of_runs_of_worker_code_stays_small():
    """Workers are machines: their code runs once per new history, not once per schedule."""
    from labkit.engine import Engine
    from labkit.search.breadth_first import BreadthFirst

    with intercepted():
        engine = Engine(naive_lock("ABC"), absolute=False)
        found = BreadthFirst(engine).run()
        assert found.transitions > 300
        assert sum(machine.runs.begun for machine in engine.machines) <= 27
        engine.close()


def test_status_race_without_a_retry_loses_the_job_when_its_worker_dies():
    scenario = status_race(sound_completion)

    def at_end(lab):
        scenario(lab)
        jobs = lab.redis()
        lab.at_end("the job is completed", lambda: jobs.get(STATUS) == b"completed")

    assert "the job is completed" in explore(at_end, crashes=1).violations


def test_workers_that_all_raise_in_every_execution_do_not_make_it_hold():
    def broken(r):
        r.get("k")
        raise KeyError("a misspelt name")

    def scenario(lab, fails=(True, True)):
        for name, fail in zip("AB", fails, strict=True):
            lab.worker(name, broken if fail else lambda r: r.get("k"), lab.redis())
        lab.always("true", lambda: True)

    verdict = explore(scenario)
    assert verdict.outcome == "undetermined"
    assert "every worker raised an exception in every execution" in verdict.headline
    assert "A raised KeyError" in repr(verdict)
    assert explore(lambda lab: scenario(lab, (True, False))).outcome == "holds"


def test_workers_that_need_not_finish_are_no_failure():
    def poll(r):
        while r.get("never") is None:
            time.sleep(1)

    def scenario(lab):
        lab.worker("A", poll, lab.redis(), forever=True)
        lab.always("true", lambda: True)

    assert explore(scenario).outcome == "holds"
