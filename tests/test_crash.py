"""A crash is a SIGKILL: nothing of the worker runs after it."""

import gc

import pytest

from labkit import ScheduleError, explore, replay


def make(ran):
    def scenario(lab):
        jobs = lab.redis()

        def work(r):
            try:
                with lab.section("inside"):
                    r.set("a", 1)
                    r.set("b", 1)
            except BaseException:
                ran("except")
                r.set("except", 1)
                raise
            finally:
                ran("finally")
                r.set("finally", 1)
                lab.mail.send("finally")

        lab.worker("A", work, lab.redis())
        lab.at_end("no clean-up took effect", lambda: jobs.keys() == [b"a"] and lab.mail.count() == 0)
        lab.always("the dead are in no section", lambda: jobs.get("b") or lab.inside("inside") <= 1)

    return scenario


def test_a_crash_runs_no_finally_and_no_except():
    ran = []
    trace = replay(make(lambda what: ran.append(what)), "A crash:A")
    gc.collect()
    assert ran == []
    assert trace.violation is None
    assert trace.over


def test_without_a_crash_the_finally_block_runs():
    ran = []
    trace = replay(make(lambda what: ran.append(what)), "A A A A")
    assert ran == ["finally"]
    assert trace.violation.property == "no clean-up took effect"


def test_no_clean_up_of_a_killed_worker_reaches_a_store_in_any_schedule():
    def scenario(lab):
        jobs = lab.redis()

        def work(r):
            try:
                r.set("a", 1)
                r.set("b", 1)
            finally:
                if not r.get("b"):
                    r.set("leak", 1)  # only a clean-up after a crash could do this

        lab.worker("A", work, lab.redis())
        lab.worker("B", lambda r: r.get("a"), lab.redis())
        lab.always("no clean-up took effect", lambda: jobs.get("leak") is None)

    assert explore(scenario, crashes=2).outcome == "holds"


def test_a_worker_can_be_killed_before_its_first_step_and_not_after_its_last():
    assert replay(make(lambda what: None), "crash:A").over
    with pytest.raises(ScheduleError, match="the execution is over"):
        replay(make(lambda what: None), "A A A A crash:A")
