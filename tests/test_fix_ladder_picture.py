"""The fix ladder as a picture: a verdict in each cell, and each violated cell leads to its counterexample."""

import html
import re
from dataclasses import replace

import pytest
from matplotlib.colors import to_hex

from labkit import ScheduleError, explore, replay
from labkit.incidents import DEPLOY, INCIDENTS, STATUS_RACE, Fault, Fix, Incident, Ladder
from labkit.plots import fix_ladder
from labkit.plots.ladder import SHADES, mark
from tests.pictured_scenarios import atomic_lock, check_then_set
from tests.pictures import assert_readable, texts, visible_words


@pytest.fixture(scope="module")
def ladder():
    return STATUS_RACE.climb()


@pytest.fixture(scope="module")
def verdicts():
    """One verdict of each kind."""
    found = explore(check_then_set), explore(atomic_lock), explore(atomic_lock, max_states=3)
    return {verdict.outcome: verdict for verdict in found}


def drawn(picture, rows, columns):
    """The shade's outcome and the text of each cell, row by row."""
    (axes,) = picture.figure.axes
    outcomes = {(shade.face.lower(), shade.hatch): outcome for outcome, shade in SHADES.items()}
    filled = [patch for patch in axes.patches if patch.get_fill()][: rows * columns]
    words = {text.get_position(): text.get_text() for text in axes.texts}
    found = []
    for patch in filled:
        middle = patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2
        word = next(word for (x, y), word in words.items() if abs(x - middle[0]) + abs(y - middle[1]) < 1e-9)
        found.append((outcomes[to_hex(patch.get_facecolor()), patch.get_hatch() or ""], word))
    return found


def cells_of_table(picture):
    """The cells of the table below the picture, row by row, as HTML."""
    return re.findall(r"<td.*?</td>", picture.twin, re.DOTALL)


def test_each_cell_shows_its_verdict_and_the_length_of_the_shortest_violation(ladder):
    faults = [fault.name for fault in STATUS_RACE.faults]
    wanted = []
    for row in range(len(ladder.rungs)):
        for fault in faults:
            verdict = ladder.cell(row, fault)
            lengths = [trace.length for trace in verdict.violations.values()]
            wanted.append((verdict.outcome, f"✗ {min(lengths)}" if lengths else SHADES[verdict.outcome].symbol))
    assert drawn(fix_ladder(ladder), len(ladder.rungs), len(faults)) == wanted
    assert len({outcome for outcome, _ in wanted}) > 1


def wrong_replays(picture, ladder):
    """The violated cells whose line, when it is pasted, does not break what the cell names."""
    faults = [fault.name for fault in ladder.incident.faults]
    places = [(row, fault) for row in range(len(ladder.rungs)) for fault in faults]
    wrong = []
    for (row, fault), cell in zip(places, cells_of_table(picture), strict=True):
        violations = ladder.cell(row, fault).violations
        if not violations:
            wrong += [(row, fault)] if "replay(" in cell else []
            continue
        code, name = re.search(r"<pre>(replay\(.*\))\n", cell), re.search(r"<summary>[^:]*: (.*?)</summary>", cell)
        if code is None or name is None:
            wrong.append((row, fault))
            continue
        code, name = html.unescape(code[1]), html.unescape(name[1])
        try:
            trace = eval(code, {"replay": replay, "INCIDENTS": INCIDENTS})
        except ScheduleError:
            wrong.append((row, fault))
            continue
        fits = trace == violations.get(name) and name in {found.property for found in trace.violations}
        wrong += [] if fits and html.escape(trace.table()) in cell else [(row, fault)]
    return wrong


def test_each_violated_cell_leads_to_its_counterexample_and_to_the_line_that_replays_it(ladder):
    assert not wrong_replays(fix_ladder(ladder), ladder)


def test_cells_that_lead_to_the_counterexamples_of_another_row_are_found(ladder):
    rungs = ladder.rungs
    moved = {
        (rungs[row - 1], fault): verdict
        for row, rung in enumerate(rungs)
        for (at, fault), verdict in ladder.cells.items()
        if at == rung
    }
    shifted = Ladder(STATUS_RACE, {place: moved[place] for place in ladder.cells})
    assert wrong_replays(fix_ladder(shifted), ladder)


def test_an_incident_of_ones_own_is_replayed_by_its_variable(verdicts):
    own = replace(STATUS_RACE, name="ours")
    ladder = Ladder(
        own,
        {(own.rung(n), fault.name): verdicts["violated"] for n in range(len(own.fixes) + 1) for fault in own.faults},
    )
    assert "replay(incident.scenario((), " in html.unescape(fix_ladder(ladder).twin)


def test_rows_are_fixes_columns_are_faults_and_the_table_says_what_each_fix_does(ladder):
    picture = fix_ladder(ladder)
    shown = texts(picture)
    assert {"no fix", *(f"+ {fix.name}" for fix in STATUS_RACE.fixes)} <= set(shown)
    assert {fault.name for fault in STATUS_RACE.faults} <= set(shown)
    words = visible_words(picture.twin)
    assert all(fix.says in words for fix in STATUS_RACE.fixes)
    assert picture.twin.count('scope="row"') == len(STATUS_RACE.fixes) + 1


def test_the_bounds_of_each_column_stand_below(ladder):
    shown = " ".join(texts(fix_ladder(ladder)))
    for fault in STATUS_RACE.faults:
        assert all(f"{key}={value}" in shown for key, value in {**fault.budgets, **fault.world}.items())


def ladder_of(incident, cycle):
    """A ladder of an incident with given verdicts, so that it need not be searched."""
    rungs = [incident.rung(count) for count in range(len(incident.fixes) + 1)]
    places = [(rung, fault.name) for rung in rungs for fault in incident.faults]
    return Ladder(incident, {place: cycle[number % len(cycle)] for number, place in enumerate(places)})


def test_an_unfinished_search_looks_like_neither_of_the_others(verdicts):
    picture = fix_ladder(ladder_of(DEPLOY, list(verdicts.values())))
    assert set(verdicts) == {"violated", "holds", "undetermined"}
    assert {mark(verdict)[0] for verdict in verdicts.values()} == {"✗", "✓", "?"}
    assert "undetermined: the search was cut short" in texts(picture)
    assert "undetermined for" in picture.alt
    assert "undetermined: the search was cut short" not in texts(fix_ladder(ladder_of(DEPLOY, [verdicts["holds"]])))


def test_no_two_labels_overlap_in_the_ladders_of_the_incidents(ladder, verdicts):
    for picture in (fix_ladder(ladder), fix_ladder(ladder_of(DEPLOY, list(verdicts.values())))):
        assert_readable(picture)
        assert picture.figure.get_size_inches()[0] <= 9.6


def test_no_two_labels_overlap_with_long_names_and_many_rows(verdicts):
    fixes = tuple(Fix(f"a fix with a long name {number}", "It helps.") for number in range(20))
    faults = tuple(Fault(f"fault {number}", {"crashes": 1}, {"seconds": 45}) for number in range(8))
    large = Incident("an incident with a name that is long", fixes, faults, lambda lab, fixes: None)
    assert_readable(fix_ladder(ladder_of(large, list(verdicts.values()))))


def test_the_same_ladder_is_the_same_picture(ladder):
    assert fix_ladder(ladder).png() == fix_ladder(ladder).png()


def test_the_alternative_text_and_the_twin_are_in_the_html(ladder):
    picture = fix_ladder(ladder)
    shown = picture._repr_mimebundle_()["text/html"]
    assert f'alt="{html.escape(picture.alt)}"' in shown
    assert picture.alt.startswith(
        f"Fix ladder of {STATUS_RACE.name}: a verdict for each fix and fault. no fix: violated"
    )
    assert picture.twin in shown
    assert picture._repr_mimebundle_()["text/plain"].startswith(repr(ladder))
