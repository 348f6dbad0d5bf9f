"""What the gallery says of mends beside the one it shows: which are not enough, and within what they hold."""

import time
from contextlib import nullcontext
from functools import partial

import pytest

from labkit import explore
from labkit.cases import CASES
from labkit.cases.clocks_and_failover import billing, charge_by_ledger, cluster, invalidation, update_between_deletes
from labkit.cases.held_locks import late_release
from labkit.cases.kept_locks import deploy, leased, release_at_first, unique_jobs
from labkit.cases.renewal import heartbeats
from labkit.locks import GetThenDeleteLock

NEED_A_FAULT = ["P04", "P07", "P11", "P12", "P13", "P14", "P16", "P17", "P32", "P37", "P41", "P42"]


def broken(scenario, **budgets):
    """The properties that a scenario violates."""
    return set(explore(scenario, **budgets).violations)


@pytest.mark.parametrize("name", NEED_A_FAULT)
def test_without_the_fault_that_the_report_names_nothing_goes_wrong(name):
    assert CASES[name].budgets
    assert explore(CASES[name].broken).outcome == "holds"


def test_the_reviewed_mend_of_p13_breaks_one_step_later():
    verdict = explore(partial(late_release, kind=GetThenDeleteLock), pauses=1)
    assert verdict.counterexample.length == 6


def test_to_count_attempts_as_p15_first_did_leaves_a_lock_behind():
    assert broken(partial(unique_jobs, release=release_at_first)) == {"no lock is left by a job that is gone"}


def test_a_time_to_live_without_a_renewal_is_no_mend_of_p17():
    task = partial(leased, renewal=nullcontext)
    assert broken(partial(deploy, task=task), crashes=1) == {"one pod at a time writes the report"}


def test_each_half_of_the_mend_of_p05_mends_its_own_half():
    assert broken(partial(heartbeats, owned=True, keyed=False)) == {"an order is placed once"}
    assert broken(partial(heartbeats, owned=False, keyed=True)) == {"no message is queued twice"}


@pytest.mark.parametrize("name", ["P06", "P07"])
def test_a_renewal_does_not_help_a_process_that_is_paused(name):
    assert broken(CASES[name].fixed, **{**CASES[name].budgets, "pauses": 1}) == set(
        CASES[name].explore().broken.violations
    )


def test_a_clock_that_nobody_sets_mends_p41_too():
    assert explore(lambda lab: cluster(lab, time.monotonic), jumps=1).outcome == "holds"


def test_the_ledger_of_p37_needs_the_idempotency_key_when_a_worker_dies():
    everything = {"failovers": 1, "crashes": 1, "lost_replies": 1}
    assert explore(partial(billing, how=charge_by_ledger), **everything).outcome == "holds"
    assert broken(partial(billing, how=partial(charge_by_ledger, keyed=False)), failovers=1) == set()
    assert broken(partial(billing, how=partial(charge_by_ledger, keyed=False)), crashes=1) == {
        "the card is charged once"
    }


def test_to_delete_before_and_after_as_p42_did_does_not_survive_a_failover():
    scenario = partial(invalidation, change=update_between_deletes, versioned=False)
    assert broken(scenario, failovers=1) == {"no mail has the old text after the change"}
