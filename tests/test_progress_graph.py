"""The progress graph: its shaded region is what every schedule says, and it can be read."""

import html
from itertools import pairwise

import pytest

from labkit import ScenarioError, explore
from labkit.plots import progress_graph
from labkit.plots.progress import LETTERS, SHADES, UNREACHED
from labkit.search import progress_map
from tests.every_replay import EveryReplay
from tests.pictured_scenarios import SCENARIOS, check_then_set, expiring_lock, lost_update
from tests.pictures import assert_readable, cells, grid_of_text, markers, texts
from tests.programs import naive_lock

FATE_OF_SHADE = {(shade.face.upper(), shade.hatch): fate for fate, shade in SHADES.items()}


@pytest.fixture(scope="module")
def replayed():
    """What replaying every schedule says of each point, by the name of the scenario."""
    return {name: EveryReplay(scenario, pauses=pauses).fates() for name, (scenario, pauses) in SCENARIOS.items()}


def drawn(picture):
    """The fates that the cells of a picture show, without those that no schedule comes to."""
    fates = {point: FATE_OF_SHADE[look] for point, look in cells(picture).items()}
    return {point: fate for point, fate in fates.items() if fate != UNREACHED}


def graph(name):
    scenario, pauses = SCENARIOS[name]
    return progress_graph(scenario, pauses=pauses)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_cell_is_shaded_as_replaying_every_schedule_says(name, replayed):
    picture = graph(name)
    assert drawn(picture) == replayed[name]
    letters = {point: letter for point, letter in grid_of_text(picture).items() if letter}
    assert letters == {point: LETTERS[fate] for point, fate in replayed[name].items()}


def test_the_scenarios_have_cells_of_every_kind(replayed):
    fates = {fate for found in replayed.values() for fate in found.values()}
    assert fates == {"broken", "doomed", "depends", "open"}


def forget_what_was_broken_on_the_way(monkeypatch):
    after = progress_map._after
    fresh = lambda engine, names, node, *rest: after(engine, names, node._replace(broken=False), *rest)  # noqa: E731
    monkeypatch.setattr(progress_map, "_after", fresh)


def see_no_doom(monkeypatch):
    monkeypatch.setattr(progress_map, "_doomed", lambda nodes: set())


def believe_the_first_way(monkeypatch):
    monkeypatch.setattr(progress_map, "_together", lambda fates: sorted(fates)[0])


def judge_no_end(monkeypatch):
    monkeypatch.setattr(progress_map, "ends_badly", lambda *_: False)


def mix_up_whose_step_it_was(monkeypatch):
    after = progress_map._after

    def crooked(*arguments):
        node = after(*arguments)
        return node._replace(point=(node.point[1], node.point[0]))

    monkeypatch.setattr(progress_map, "_after", crooked)


@pytest.mark.parametrize(
    "mutant",
    [
        forget_what_was_broken_on_the_way,
        see_no_doom,
        believe_the_first_way,
        judge_no_end,
        mix_up_whose_step_it_was,
    ],
)
def test_a_map_with_a_defect_disagrees_with_some_scenario(mutant, monkeypatch, replayed):
    mutant(monkeypatch)
    assert any(drawn(graph(name)) != replayed[name] for name in SCENARIOS)


def test_the_line_goes_the_way_of_the_shortest_counterexample_and_ends_in_its_break():
    picture = progress_graph(check_then_set)
    schedule = explore(check_then_set).counterexample.schedule
    assert f"The schedule drawn: {schedule}" in picture.text
    (axes,) = picture.figure.axes
    way = max(axes.lines, key=lambda line: len(line.get_xdata()))
    assert len(way.get_xdata()) == len(schedule) + 1
    places = list(zip(way.get_xdata(), way.get_ydata(), strict=True))
    to_the_right = ["A" if right[0] > left[0] else "B" for left, right in pairwise(places)]
    assert " ".join(to_the_right) == str(schedule)
    crosses = {(x, y) for marker, x, y in markers(picture) if marker == "x"}
    assert crosses == {places[-1]}


def test_a_pause_and_a_fault_on_the_way_have_marks_that_the_legend_explains():
    picture = progress_graph(expiring_lock, "A clock crash:A B", pauses=1)
    found = [marker for marker, _, _ in markers(picture)]
    assert found.count("D") == 1
    assert found.count("X") == 1
    assert {"diamond: time passes there", "cross in a frame: a fault"} <= set(texts(picture))
    assert "It breaks nothing so far; it stops midway." in picture.text


def test_steps_stand_at_the_axes_and_every_shade_in_the_legend():
    picture = progress_graph(check_then_set)
    shown = texts(picture)
    for step in ("1 GET lock", "2 SET lock taken", "3 GET data", "4 DEL lock"):
        assert shown.count(step) == 2
    assert {"A, to the right", "B, upwards", "About: every property"} <= set(shown)
    assert "depends on the way you came" in shown
    assert not any("doomed" in text for text in shown)  # only what is there is explained


def test_where_nothing_breaks_no_line_is_drawn_and_the_picture_says_so():
    picture = graph("atomic_lock")
    assert "no line: no schedule breaks it" in texts(picture)
    assert "No schedule is drawn." in picture.alt
    assert set(drawn(picture).values()) == {"open"}


def test_one_property_can_be_asked_for():
    picture = progress_graph(naive_lock("AB"), property="true")
    assert set(drawn(picture).values()) == {"open"}
    assert "About: true" in texts(picture)
    with pytest.raises(ScenarioError, match="states no property 'never said'"):
        progress_graph(check_then_set, property="never said")


def test_three_workers_are_refused_in_words():
    with pytest.raises(ScenarioError, match="an axis for each of two workers; this scenario has 3"):
        progress_graph(naive_lock("ABC"))


def busy(steps):
    """Two workers with so many steps each, in long words."""

    def work(r, name):
        for number in range(steps):
            r.set(f"a-key-with-a-long-name-{name}-{number}", "and a value that is longer than any axis")

    def scenario(lab):
        for name in ("the-first-worker", "the-other-worker"):
            lab.worker(name, work, lab.redis(), name)
        lab.always("a property whose name is so long that no legend has room for it in a single line", lambda: True)

    return scenario


@pytest.mark.parametrize("steps", [1, 16, 17, 40])
def test_no_two_labels_overlap_up_to_the_most_steps(steps):
    assert_readable(progress_graph(busy(steps), property=None))


def test_more_steps_than_a_picture_holds_are_refused_in_words():
    with pytest.raises(ScenarioError, match="at most 40 steps of a worker; here one takes 41"):
        progress_graph(busy(41))


@pytest.mark.parametrize("name", SCENARIOS)
def test_typical_graphs_are_readable_and_no_wider_than_a_notebook(name):
    picture = graph(name)
    assert_readable(picture)
    assert picture.figure.get_size_inches()[0] <= 9.6


def test_the_same_scenario_is_the_same_picture():
    assert progress_graph(lost_update).png() == progress_graph(lost_update).png()


def test_the_alternative_text_and_the_twin_are_in_the_html():
    picture = progress_graph(check_then_set)
    shown = picture._repr_mimebundle_()["text/html"]
    assert 'alt="Progress graph of A, up to 4 steps to the right, and B, up to 4 upwards.' in shown
    assert "broken 1, doomed 0, depending on the way 8. The schedule drawn: A B B A." in picture.alt
    assert html.escape(picture.text) in shown
    assert picture._repr_mimebundle_()["text/plain"] == picture.text
