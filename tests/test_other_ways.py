"""More than one counterexample for a property: shortest ones, each with another order of commands."""

import itertools

import pytest

from labkit import ScenarioError, ScheduleError, explore, replay
from labkit.cases import CASES
from tests.programs import article_fix
from tests.test_play import two_handlers

ONCE = "at most one mail"


def all_ways(scenario, name, length):
    """Every schedule of two workers whose last step breaks a property, by brute force."""
    found = set()
    for words in itertools.product("AB", repeat=length):
        try:
            trace = replay(scenario, " ".join(words))
        except ScheduleError:
            continue
        if any(broken.property == name and broken.number == length for broken in trace.violations):
            found.add(str(trace.schedule))
    return found


def test_with_workers_told_apart_they_are_all_that_brute_force_finds():
    verdict = explore(two_handlers, others=100, symmetry=False)
    found = [str(trace.schedule) for trace in (verdict.violations[ONCE], *verdict.others[ONCE])]
    assert len(found) == len(set(found))
    assert set(found) == all_ways(two_handlers, ONCE, 6)


def test_ways_that_differ_only_in_which_interchangeable_worker_is_which_are_one():
    verdict = explore(two_handlers, others=100)
    found = [str(trace.schedule) for trace in (verdict.violations[ONCE], *verdict.others[ONCE])]
    mirrored = {way.translate(str.maketrans("AB", "BA")) for way in found}
    assert not mirrored & set(found)
    assert mirrored | set(found) == all_ways(two_handlers, ONCE, 6)


@pytest.mark.parametrize("scenario", [article_fix, CASES["P17"].broken])
def test_each_is_as_short_as_the_first_and_breaks_the_same_property(scenario):
    verdict = explore(scenario, crashes=1, pauses=1, others=4)
    assert verdict.others
    for name, traces in verdict.others.items():
        assert len(traces) <= 4
        for trace in traces:
            assert trace.length == verdict.violations[name].length
            assert name in [broken.property for broken in trace.violations]


def test_nothing_else_of_the_verdict_changes():
    assert repr(explore(article_fix, crashes=1, others=3)) == repr(explore(article_fix, crashes=1))
    assert not explore(article_fix, crashes=1).others


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ScenarioError, match="others is a number of counterexamples"):
        explore(two_handlers, others=-1)
