"""The incidents: each fault breaks them, each fix helps against some, and together they hold within the bounds."""

import pytest

from labkit import ScenarioError, explore, replay
from labkit.__main__ import main
from labkit.incidents import DEPLOY, INCIDENTS, STATUS_RACE, Fix, Incident, seven_steps

BOTH = pytest.mark.parametrize("incident", [STATUS_RACE, DEPLOY], ids=["status race", "deploy"])


@pytest.fixture(scope="module")
def ladders():
    """Both ladders, climbed once."""
    return {incident.name: incident.climb() for incident in (STATUS_RACE, DEPLOY)}


@BOTH
def test_the_corrected_program_holds_against_every_fault(incident, ladders):
    ladder = ladders[incident.name]
    top = len(incident.fixes)
    assert {fault.name: ladder.cell(top, fault.name).outcome for fault in incident.faults} == {
        fault.name: "holds" for fault in incident.faults
    }


@BOTH
def test_every_fault_breaks_the_program_on_some_rung(incident, ladders):
    ladder = ladders[incident.name]
    for fault in incident.faults:
        assert any(ladder.cells[rung, fault.name].outcome == "violated" for rung in ladder.rungs)


@BOTH
def test_every_property_can_fail(incident, ladders):
    verdicts = ladders[incident.name].cells.values()
    stated = {name for verdict in verdicts for name in verdict.properties}
    violated = {name for verdict in verdicts for name in verdict.violations}
    assert violated == stated


@BOTH
def test_every_fix_of_the_corrected_program_is_needed(incident):
    found = {missing: fault for missing, fault, _ in incident.ablate()}
    assert list(found) == list(incident.corrected)
    assert None not in found.values(), found


@BOTH
def test_no_search_of_a_ladder_is_cut_short(incident, ladders):
    assert "undetermined" not in {verdict.outcome for verdict in ladders[incident.name].cells.values()}


def test_a_fix_may_help_against_one_fault_and_not_against_another(ladders):
    race = ladders[STATUS_RACE.name]
    assert race.cell(2, "at once").outcome == "holds"  # lock and guard, as the article has them
    assert race.cell(2, "crash").violations.keys() == {"the event of a completed job went out"}
    deploy = ladders[DEPLOY.name]
    assert deploy.cell(6, "slow job").outcome == "holds"
    assert "the mail went out" in deploy.cell(6, "crash").violations  # the key is there, the effect is not


def test_a_ladder_is_text_with_a_row_for_each_rung(ladders):
    lines = repr(ladders[DEPLOY.name]).splitlines()
    assert len(lines) == 2 + len(DEPLOY.fixes)
    assert lines[1].startswith("no fix")
    assert "broken in" in lines[1]
    assert lines[-1].startswith("+ provider key")
    assert lines[-1].count("holds") == len(DEPLOY.faults)


def test_a_cell_of_a_ladder_leads_to_its_counterexample(ladders):
    verdict = ladders[DEPLOY.name].cell(1, "slow job")
    trace = replay(DEPLOY.scenario(DEPLOY.rung(1), "slow job"), verdict.counterexample.schedule)
    assert trace.table() == verdict.counterexample.table()


def test_a_fix_that_nothing_needs_is_told_by_the_ablation():
    idle = Fix("idle", "Does nothing.")
    incident = Incident("with an idle fix", (*STATUS_RACE.fixes, idle), STATUS_RACE.faults[:1], STATUS_RACE.build)
    assert {missing: fault for missing, fault, _ in incident.ablate()}["idle"] is None


def test_an_unknown_fix_or_fault_is_refused():
    with pytest.raises(ScenarioError, match=r"knows no fix 'lokc'; it knows \['lock'"):
        STATUS_RACE.scenario({"lokc"}, "crash")
    with pytest.raises(ScenarioError, match="knows no fault 'earthquake'"):
        STATUS_RACE.explore((), "earthquake")
    with pytest.raises(ScenarioError, match="knows no fix 'lock'"):
        STATUS_RACE.explore("lock", "crash")  # a text is no collection of names


def test_the_seven_steps_as_written_lose_an_order_without_any_crash():
    verdict = explore(seven_steps.as_written)
    assert {"the mail for order-1 went out", "a piece of stock for each order"} <= verdict.violations.keys()
    assert all(event.kind != "crash" for trace in verdict.violations.values() for event in trace.events)


def test_the_seven_steps_as_written_lose_an_order_when_a_worker_dies_between_key_and_effect():
    alone = explore(seven_steps.as_written, crashes=1)
    assert alone.violations["a piece of stock for each order"].length < 25


@pytest.mark.parametrize("budgets", [{}, {"crashes": 1}, {"lost_replies": 1}], ids=str)
def test_the_corrected_flow_holds(budgets):
    assert explore(seven_steps.corrected, **budgets).outcome == "holds"


def test_a_ladder_is_shown_on_the_command_line(capsys, monkeypatch):
    short = Incident("a short one", STATUS_RACE.fixes[:1], STATUS_RACE.faults[:1], STATUS_RACE.build)
    monkeypatch.setitem(INCIDENTS, "deploy", short)
    assert main(["ladder", "deploy"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("+ lock")


@pytest.mark.parametrize("count", [-1, 99, 1.5, None])
def test_a_rung_that_there_is_not_is_refused(count):
    with pytest.raises(ScenarioError, match=f"has rungs 0 to {len(STATUS_RACE.fixes)}, not"):
        STATUS_RACE.rung(count)


def test_a_cell_that_there_is_not_is_refused(ladders):
    ladder = next(iter(ladders.values()))
    with pytest.raises(ScenarioError, match="has rungs 0 to"):
        ladder.cell(-1, ladder.incident.faults[0].name)
    with pytest.raises(ScenarioError, match="knows no fault 'earthquake'"):
        ladder.cell(0, "earthquake")


def test_fixes_that_do_not_fit_together_are_refused():
    fix, faults = STATUS_RACE.fixes[0], STATUS_RACE.faults
    with pytest.raises(ScenarioError, match="two fixes called 'lock'"):
        Incident("twice", (fix, fix), faults, STATUS_RACE.build)
    with pytest.raises(ScenarioError, match="replaces 'guess', not one of"):
        Incident("unknown", (Fix("sure", "knows", replaces=("guess",)),), faults, STATUS_RACE.build)
    with pytest.raises(ScenarioError, match="no faults to search"):
        Incident("calm", (fix,), (), STATUS_RACE.build)
