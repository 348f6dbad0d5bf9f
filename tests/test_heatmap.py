"""The heatmap: each share is that of replaying every schedule, and it can be read in grey."""

import html

import pytest
from matplotlib.colors import to_hex

from labkit import ScenarioError, sample
from labkit.plots import heatmap
from labkit.plots.heat import shade_of
from labkit.plots.style import ABSENT
from labkit.search import chances
from labkit.search.chances import switch_grid
from tests.every_replay import EveryReplay
from tests.pictured_scenarios import SCENARIOS, atomic_lock, check_then_set, expiring_lock, lost_update
from tests.pictures import assert_readable, cells, contrast, grid_of_text, luminance, texts
from tests.programs import naive_lock
from tests.test_progress_graph import busy

WITH_CLOCK = ["expiring_lock", "short_lease"]
PICTURES = [*((name, False) for name in SCENARIOS), *((name, True) for name in WITH_CLOCK)]


def replayed(name, clock):
    """What replaying every schedule of a scenario says of each pair of switch points."""
    scenario, _ = SCENARIOS[name]
    about = switch_grid(scenario, clock=clock, pauses=int(clock)).property
    return EveryReplay(scenario, about, pauses=int(clock)).switches(clock)


@pytest.fixture(scope="module")
def shares():
    return {(name, clock): replayed(name, clock) for name, clock in PICTURES}


def drawn(name, clock):
    """The shares that a computation gives, those that the cells of the picture show, and their figures."""
    scenario, _ = SCENARIOS[name]
    about = switch_grid(scenario, clock=clock, pauses=int(clock)).property
    picture = heatmap(scenario, about, clock=clock, executions=10)
    faces = {point: face for point, (face, hatch) in cells(picture).items() if hatch != ABSENT.hatch}
    figures = {point: figure for point, figure in grid_of_text(picture).items() if figure != "-"}
    return faces, figures


def as_drawn(share):
    return shade_of(share).face.upper(), f"{share * 100:.0f}"


@pytest.mark.parametrize(("name", "clock"), PICTURES)
def test_each_square_has_the_share_that_replaying_its_schedules_gives(name, clock, shares):
    faces, figures = drawn(name, clock)
    wanted = {point: as_drawn(share) for point, share in shares[name, clock].items()}
    assert {point: (faces[point], figures[point]) for point in faces} == wanted


def take_the_first_for_the_average(monkeypatch):
    known = chances._Chances._sum

    def first(self, state):
        moves = self._engine.moves(state)
        if state in self._known or not moves:
            return known(self, state)
        return 1.0 if self.breaks(state, moves[0].state) else self._known[moves[0].state]

    monkeypatch.setattr(chances._Chances, "_sum", first)


def see_only_what_chance_breaks(monkeypatch):
    alone = chances._Chances.alone

    def blind(self, state, worker):
        return ((after, False, text) for after, _, text in alone(self, state, worker))

    monkeypatch.setattr(chances._Chances, "alone", blind)


def judge_no_end(monkeypatch):
    monkeypatch.setattr(chances, "ends_badly", lambda *_: False)


@pytest.mark.parametrize("mutant", [take_the_first_for_the_average, see_only_what_chance_breaks, judge_no_end])
def test_a_heatmap_with_a_defect_disagrees_with_some_scenario(mutant, monkeypatch, shares):
    mutant(monkeypatch)
    grids = {
        (name, clock): dict(switch_grid(SCENARIOS[name][0], clock=clock, pauses=int(clock)).chances)
        for name, clock in PICTURES
    }
    assert any(grids[each] != pytest.approx(shares[each]) for each in PICTURES)


def test_chance_alone_is_what_replaying_every_schedule_gives_and_sampling_agrees_with_it():
    exact = EveryReplay(check_then_set, "at most one worker is inside").chance(())
    picture = heatmap(check_then_set)
    assert f"Chance alone, exactly: {exact:.1%}." in picture.text
    low, high = sample(check_then_set, 1_000).interval("at most one worker is inside")
    assert low <= exact <= high
    assert f"(95 % interval {low:.1%} to {high:.1%})" in picture.alt


def test_how_lucky_staging_was_is_the_chance_that_ten_runs_miss():
    exact = EveryReplay(check_then_set, "at most one worker is inside").chance(())
    assert f"The chance that 10 runs miss it: {(1 - exact) ** 10:.1%}." in heatmap(check_then_set, executions=10).text


def test_one_worker_after_the_other_finds_nothing():
    assert "One after the other, A first: 0%." in heatmap(check_then_set, executions=10).text


def test_the_property_seen_most_often_is_the_one_that_is_drawn():
    assert "violate 'at most one worker is inside'" in heatmap(naive_lock("AB")).text
    assert "violate 'true'" in heatmap(naive_lock("AB"), "true").text


def test_the_legend_explains_what_there_is_and_no_more():
    assert "no schedule does that" in texts(heatmap(check_then_set, executions=10))
    whole = heatmap(lost_update, executions=10)
    missing = "-" in grid_of_text(whole).values()
    assert ("no schedule does that" in texts(whole)) == missing
    assert {"0%", "50%", "100%"} <= set(texts(whole))


def test_a_pause_is_told_as_one():
    assert "A is paused until" not in heatmap(expiring_lock, executions=10).alt
    assert "is paused until the next deadline while B" in heatmap(expiring_lock, clock=True, executions=10).alt


def test_the_darker_the_worse_and_each_figure_has_enough_contrast():
    shades = [shade_of(share / 100) for share in range(101)]
    greys = [luminance(shade.face) for shade in shades]
    assert greys == sorted(greys, reverse=True)
    assert len(set(greys)) == 101
    assert min(contrast(shade.ink, shade.face) for shade in shades) >= 4.5


def test_the_figure_in_a_square_is_written_in_the_ink_of_its_shade():
    picture = heatmap(check_then_set, executions=10)
    (axes,) = picture.figure.axes
    figures = {text.get_text(): to_hex(text.get_color()) for text in axes.texts if text.get_text().isdigit()}
    assert figures == {str(number): to_hex(shade_of(number / 100).ink) for number in (0, 25, 50)}


@pytest.mark.parametrize("steps", [17, 40])
def test_no_two_labels_overlap_up_to_the_most_steps(steps):
    assert_readable(heatmap(busy(steps), executions=10))


def test_three_workers_are_refused_in_words():
    with pytest.raises(ScenarioError, match="an axis for each of two workers; this scenario has 3"):
        heatmap(naive_lock("ABC"), executions=10)


@pytest.mark.parametrize(("name", "clock"), PICTURES)
def test_typical_heatmaps_are_readable_and_no_wider_than_a_notebook(name, clock):
    picture = heatmap(SCENARIOS[name][0], clock=clock, executions=10)
    assert_readable(picture)
    assert picture.figure.get_size_inches()[0] <= 9.6


def test_the_same_scenario_is_the_same_picture():
    assert heatmap(atomic_lock).png() == heatmap(atomic_lock).png()


def test_the_alternative_text_and_the_twin_are_in_the_html():
    picture = heatmap(check_then_set)
    shown = picture._repr_mimebundle_()["text/html"]
    assert (
        'alt="Heatmap of bad schedules of A and B. The worst share, 50%, is in 2 of 19 squares, first after 1 ' in shown
    )
    assert html.escape(picture.text) in shown
