"""The gallery: each broken program is violated, no later than known; each mended one holds within the same bounds."""

import json

import pytest

from labkit import explore, replay, run
from labkit.__main__ import main
from labkit.cases import CASES, Case, Inexpressible, Result
from labkit.cases.gallery import in_full

REPORTS = [case for case in CASES.values() if isinstance(case, Case)]


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case.id)
def test_the_broken_program_is_violated_and_the_mended_one_holds(case):
    result = case.explore()
    assert result.broken.outcome == "violated"
    assert result.fixed.outcome == "holds"
    assert case.known is None or result.length <= case.known or case.longer
    assert set(result.broken.properties) == set(result.fixed.properties)


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case.id)
def test_the_shortest_violation_replays_on_a_real_server(case, redis_url):
    if case.budgets.get("failovers"):
        pytest.skip("a failover cannot be replayed on a server")
    trace = explore(case.broken, **case.budgets).counterexample
    others = [(case.broken, trace), (case.fixed, run(case.fixed, seed=1))]
    for scenario, shown in others:
        assert replay(scenario, shown.schedule, redis_url=redis_url).violations == shown.violations


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case.id)
def test_a_report_is_told_in_one_sentence_with_its_source(case):
    assert case.mechanism.endswith(".")
    assert case.fix.endswith(".")
    assert all(source.startswith("http") for source in case.sources)
    assert case.sources or not case.id.startswith("P")


def test_few_reports_cannot_be_expressed_and_each_says_why():
    missing = [case for case in CASES.values() if isinstance(case, Inexpressible)]
    assert len(missing) <= 6
    assert all(case.reason for case in missing)


def test_a_case_is_shown_in_full_with_its_shortest_violation(capsys):
    assert main(["cases", "P10"]) == 0
    shown = capsys.readouterr().out
    assert "https://github.com/celery/celery/issues/87" in shown
    assert "<-- breaks 'at most one worker is in the critical section'" in shown
    assert "holds in all" in shown


def test_cases_are_given_to_machines_as_json(capsys):
    assert main(["cases", "P10", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["broken"] == "violated"
    assert row["as_told"]


def test_a_case_is_named_in_capital_letters_or_small_ones_and_its_schedule_can_be_replayed_as_it_is_printed(capsys):
    assert main(["cases", "p17"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    imports = [line for line in lines if line.startswith("from labkit")]
    (call,) = [line for line in lines if line.startswith("replay(")]
    names = {}
    exec("\n".join([*imports, f"trace = {call}"]), names)
    assert names["trace"].violation is not None


def test_an_unknown_case_is_wrong_use(capsys):
    assert main(["cases", "P99"]) == 3
    assert "there is no case P99" in capsys.readouterr().err


def test_a_mended_program_that_is_not_mended_is_not_as_told():
    case = REPORTS[0]
    lazy = Case(**{**vars(case), "fixed": case.broken})
    assert not lazy.explore().is_as_told
    assert "violated" in in_full(lazy.explore())


def test_a_schedule_longer_than_known_is_not_as_told_unless_explained():
    case = REPORTS[0]
    result = case.explore()
    short = Case(**{**vars(case), "known": result.length - 1})
    assert not Result(short, result.broken, result.fixed).is_as_told
    told = Case(**{**vars(short), "longer": "steps are counted differently"})
    assert Result(told, result.broken, result.fixed).is_as_told
