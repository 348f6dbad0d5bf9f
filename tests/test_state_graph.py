"""The state graph: its nodes are the states, those that break something are marked, the counterexample is thick."""

import html

import pytest
from matplotlib.patches import FancyArrowPatch

from labkit import ScenarioError, Schedule, ScheduleError, explore
from labkit.plots import state_graph
from labkit.plots.states import MOST_STATES
from labkit.plots.style import DARK_ALARM, DASHES, PAPER, look
from labkit.search.state_space import state_space
from tests.every_replay import EveryReplay
from tests.pictured_scenarios import SCENARIOS, check_then_set, expiring_lock, lost_update
from tests.pictures import assert_readable, markers, texts
from tests.programs import naive, naive_lock


def arrows(picture, width=None):
    """The arrows of a picture, or those that are so wide."""
    (axes,) = picture.figure.axes
    found = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    return [arrow for arrow in found if width is None or arrow.get_linewidth() == width]


def nodes(picture):
    """The states of a picture: place, marker and face of each."""
    (axes,) = picture.figure.axes
    found = [line for line in axes.lines if line.get_marker() in ("o", "s")]
    return {
        (line.get_xdata()[0], line.get_ydata()[0]): (line.get_marker(), line.get_markerfacecolor()) for line in found
    }


def space_of(name):
    scenario, pauses = SCENARIOS[name]
    return state_space(scenario, most=MOST_STATES, pauses=pauses)


@pytest.mark.parametrize("name", SCENARIOS)
def test_there_is_a_node_for_each_state_that_a_search_counts(name):
    scenario, pauses = SCENARIOS[name]

    def searched(lab):
        scenario(lab)
        lab.always("never violated, so that every state is searched", lambda: True)

    counted = explore(searched, pauses=pauses, symmetry=False)
    picture = state_graph(scenario, pauses=pauses)
    assert len(nodes(picture)) == counted.states
    assert len(arrows(picture)) == counted.transitions
    assert picture.text.startswith(f"{counted.states} states and {counted.transitions} choices")


def disagreements(name, space):
    """The schedules, replayed one by one, whose last state the graph marks wrongly."""
    scenario, pauses = SCENARIOS[name]
    every = EveryReplay(scenario, pauses=pauses)
    wrong = []
    for prefix in every.prefixes():
        trace = every.trace(prefix)
        way = space.way(Schedule.parse(" ".join(prefix)))
        node = space.nodes[way[-1].after if way else 0]
        now = {found.property for found in trace.violations if found.number == len(prefix)}
        ever = {found.property for found in trace.violations}
        fits = len(way) == len(prefix) and now <= set(node.broken) <= ever and node.is_end == trace.over
        wrong += [] if fits else [prefix]
    return wrong


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_schedule_leads_to_a_state_that_is_marked_if_its_replay_breaks_something_there(name):
    assert not disagreements(name, space_of(name))


@pytest.mark.parametrize("part", ["broken", "is_end"])
def test_a_graph_whose_marks_are_wrong_is_found_out(part):
    space = space_of("check_then_set")
    wrong = {"broken": (), "is_end": False}[part]
    unmarked = tuple(node._replace(**{part: wrong}) for node in space.nodes)
    assert disagreements("check_then_set", type(space)(space.workers, unmarked, space.edges))


def test_what_breaks_is_dark_and_crossed_and_ends_are_squares():
    space = space_of("check_then_set")
    picture = state_graph(check_then_set)
    found = nodes(picture)
    assert sum(face == DARK_ALARM for _, face in found.values()) == sum(bool(node.broken) for node in space.nodes) == 1
    assert sum(marker == "s" for marker, _ in found.values()) == sum(node.is_end for node in space.nodes)
    crossed = {(x, y) for marker, x, y in markers(picture) if marker == "x"}
    assert crossed == {place for place, (_, face) in found.items() if face == DARK_ALARM}
    assert {face for _, face in found.values()} == {DARK_ALARM, PAPER}


def test_the_counterexample_is_one_thick_path_from_the_start_to_a_marked_state():
    picture = state_graph(check_then_set)
    schedule = explore(check_then_set).counterexample.schedule
    thick = [arrow._posA_posB for arrow in arrows(picture, width=3)]
    assert len(thick) == len(schedule) == 4
    after = dict(thick)
    place = min(nodes(picture), key=lambda at: at[1])  # the start stands on top
    for _ in schedule:
        place = after[place]
    assert nodes(picture)[place][1] == DARK_ALARM
    assert {"1 A: GET lock", "4 A: SET lock taken"} <= {text.strip() for text in texts(picture)}
    assert {"1", "2", "3", "4"} <= set(texts(picture))


def test_a_schedule_of_ones_own_is_drawn_and_none_where_nothing_breaks():
    assert len(arrows(state_graph(check_then_set, "A A A"), width=3)) == 3
    picture = state_graph(SCENARIOS["atomic_lock"][0])
    assert not arrows(picture, width=3)
    assert not [text for text in texts(picture) if "thick" in text]
    assert "No schedule is drawn." in picture.alt


def test_arrows_have_the_dashes_of_their_worker():
    picture = state_graph(check_then_set)
    dashed = {arrow.get_linestyle() for arrow in arrows(picture, width=1)}
    assert dashed == {DASHES[look(0).dashes], DASHES[look(1).dashes]}
    assert {"A: solid", "B: long dashes"} <= set(texts(picture))


def test_time_and_faults_have_lines_and_words_of_their_own():
    picture = state_graph(expiring_lock, "A clock crash:A", pauses=1, crashes=1)
    shown = {text.strip() for text in texts(picture)}
    assert {"time passes: wide dots", "crash: dash and dot", "2 time passes", "3 crash:A"} <= shown


def test_a_step_that_itself_breaks_a_property_has_its_cross():
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("n", 2)
        lab.worker("A", lambda r: r.decr("n") and r.incr("n"), lab.redis())
        lab.always("n never falls", lambda old, new: int(new) >= int(old), remember=lambda: jobs.get("n"))

    picture = state_graph(scenario)
    assert "✗ on a line: the step breaks one" in texts(picture)
    assert [marker for marker, _, _ in markers(picture)].count("x") == 1
    assert "(breaks n never falls)" in picture.text


def test_too_many_states_are_refused_with_their_number():
    with pytest.raises(ScenarioError, match=r"has 26,489 states within these bounds.*more than 150"):
        state_graph(naive_lock("ABCDEF"))


@pytest.mark.parametrize(
    ("schedule", "why"),
    [("A A A A A", "choice 5, `A`"), ("C", "choice 1, `C`"), ("A crash:B", "choice 2, `crash:B`")],
)
def test_a_schedule_that_does_not_fit_is_refused_and_not_drawn_in_part(schedule, why):
    with pytest.raises(ScheduleError, match=f"{why}, is not possible within these budgets"):
        state_graph(check_then_set, schedule)


def test_a_property_that_nobody_states_is_refused():
    with pytest.raises(ScenarioError, match="states no property 'never said'"):
        state_graph(check_then_set, property="never said")


def wide(lab):
    """As many states side by side as 150 allow: three workers with two steps each, and threads of long names."""
    for name in ("a-worker-with-a-long-name", "another", "C"):
        lab.worker(name, lambda r, name: r.set(name, "x" * 60) and r.incr(name[:1] + "-counter"), lab.redis(), name)
    lab.at_end("a property that never holds", lambda: False)


@pytest.mark.parametrize(
    "picture",
    [
        lambda: state_graph(wide, crashes=1),
        lambda: state_graph(naive, crashes=2),
        lambda: state_graph(expiring_lock, pauses=1, crashes=1),
        *(
            lambda scenario=scenario, pauses=pauses: state_graph(scenario, pauses=pauses)
            for scenario, pauses in SCENARIOS.values()
        ),
    ],
)
def test_no_two_labels_overlap_and_no_graph_is_wider_than_a_notebook(picture):
    picture = picture()
    assert_readable(picture)
    assert picture.figure.get_size_inches()[0] <= 9.7


def test_no_two_states_meet():
    places = sorted(nodes(state_graph(wide, crashes=1)))
    assert len(places) > 60
    for x, y in places:
        assert not [at for at in places if at != (x, y) and abs(at[0] - x) < 0.2 and abs(at[1] - y) < 0.2]


def test_the_same_scenario_is_the_same_picture():
    assert state_graph(lost_update).png() == state_graph(lost_update).png()


def test_the_alternative_text_and_the_twin_are_in_the_html():
    picture = state_graph(check_then_set)
    shown = picture._repr_mimebundle_()["text/html"]
    assert f'alt="State graph: {len(nodes(picture))} states and ' in shown
    assert "The schedule drawn: 1 A: GET lock; 2 B: GET lock; 3 B: SET lock taken; 4 A: SET lock taken." in picture.alt
    assert html.escape(picture.text) in shown
    assert "'at most one worker is inside' does not hold" in picture.text
    assert picture.text.count("\nstate ") == len(nodes(picture))
