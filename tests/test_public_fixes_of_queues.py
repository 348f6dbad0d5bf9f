"""What the gallery says of mends of queues and workers beside the one it shows: halves of them, and other ones."""

from functools import partial

import pytest

from labkit import explore
from labkit.cases import CASES
from labkit.cases.popped_jobs import ack_then_enqueue, delayed
from labkit.cases.redelivery import ETA, mailing, prefetching, pumping, retried, scheduled
from labkit.cases.shutdown import hard_shutdown, prefork, rollout
from labkit.cases.streams import add_then_ack, requeueing


def broken(scenario, **budgets):
    """The properties that a scenario violates."""
    return set(explore(scenario, **budgets).violations)


@pytest.mark.parametrize("name", ["P19", "P20", "P21", "P22", "P23", "P24", "P40"])
def test_without_the_fault_that_the_report_names_nothing_goes_wrong(name):
    assert CASES[name].budgets
    assert explore(CASES[name].broken).outcome == "holds"


@pytest.mark.parametrize("name", ["P26", "P27", "P28", "P29"])
def test_without_sigterm_nothing_goes_wrong(name):
    assert explore(CASES[name].broken, signals=0).outcome == "holds"


@pytest.mark.parametrize("name", ["P01", "P02", "P03", "P08"])
def test_a_visibility_timeout_shorter_than_the_job_needs_no_fault(name):
    assert explore(CASES[name].broken).outcome == "violated"


def test_each_half_of_the_mend_of_p01_mends_its_own_half():
    assert broken(partial(mailing, kept=True, keyed=False), crashes=1) == {"each recipient gets one mail"}
    assert broken(partial(mailing, kept=False, keyed=True), crashes=1) == {"one worker at a time has the task"}


def test_the_heartbeat_of_p01_does_not_help_a_worker_that_is_paused():
    assert broken(CASES["P01"].fixed, pauses=1) == {"one worker at a time has the task"}


def test_a_visibility_timeout_longer_than_the_delay_mends_p02_while_workers_live():
    assert explore(partial(scheduled, timeout=ETA + 20)).outcome == "holds"
    assert broken(partial(scheduled, timeout=ETA + 20), crashes=1) == {"the task runs in the end"}


def test_a_retry_that_comes_too_late_leaves_the_job_of_p03_undone():
    assert broken(partial(retried, retry_after=600), crashes=1) == {"the job is done in the end"}


def test_a_heartbeat_for_the_message_at_work_alone_does_not_keep_those_that_wait():
    assert broken(partial(prefetching, kept=1)) == {"the prefetched message is worked on once"}


def test_each_third_of_the_mend_of_p09_is_needed():
    all_of_it = {"kept": True, "keyed": True, "caught": True}

    def without(part):
        return broken(partial(pumping, **{**all_of_it, part: False}), pauses=1)

    assert without("kept") == {"no message is left in the end"}
    assert without("keyed") == {"each message takes effect once"}
    assert without("caught") == {"each pump goes on until there is nothing left", "no message is left in the end"}


def test_to_add_before_acknowledging_mends_p22_without_a_transaction():
    assert explore(partial(requeueing, requeue=add_then_ack), crashes=1).outcome == "holds"


def test_each_half_of_the_mend_of_p24_mends_its_own_half():
    assert broken(partial(prefork, requeues=True, keyed=False), crashes=1) == {"the task takes effect once"}
    assert broken(partial(prefork, requeues=False, keyed=True), crashes=1) == {"the task takes effect in the end"}


def test_when_neither_puts_the_job_of_p27_back_it_is_lost():
    assert broken(partial(hard_shutdown, may=lambda undecided: False)) == {"a job is done or put back"}


def test_an_early_acknowledgement_loses_the_job_of_p28():
    assert broken(partial(rollout, grace=30, early=True)) == {"each part takes effect in the end"}


def test_to_acknowledge_before_the_copy_loses_the_message_of_p40():
    assert broken(partial(delayed, move=ack_then_enqueue), crashes=1) == {"a delayed message is queued in the end"}


def test_no_grace_period_helps_a_pod_of_p28_that_is_killed_at_once():
    assert broken(partial(rollout, grace=60), crashes=1) == {"each part takes effect once"}
