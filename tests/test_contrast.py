"""Every picture can be read by those who see little, and in grey: enough contrast, and never colour alone."""

import html
import itertools

import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.patches import Rectangle

from labkit import explore
from labkit.incidents import DEPLOY, Ladder, Rollout
from labkit.plots import (
    Picture,
    deploy_timeline,
    fix_ladder,
    heatmap,
    progress_graph,
    state_graph,
    style,
    timeout_tuner,
)
from labkit.plots.canvas import canvas
from labkit.plots.heat import shade_of
from labkit.plots.ladder import SHADES as OUTCOMES
from labkit.plots.progress import SHADES as FATES
from tests.pictured_scenarios import atomic_lock, check_then_set, expiring_lock, lost_update, short_lease
from tests.pictures import contrast, luminance
from tests.programs import naive


def ladder():
    """A ladder with every kind of verdict, without searching the incident."""
    found = itertools.cycle([explore(check_then_set), explore(atomic_lock), explore(atomic_lock, max_states=3)])
    rungs = [DEPLOY.rung(count) for count in range(len(DEPLOY.fixes) + 1)]
    return Ladder(DEPLOY, {(rung, fault.name): next(found) for rung in rungs for fault in DEPLOY.faults})


PICTURES = {
    "lanes": lambda: explore(expiring_lock, pauses=1, crashes=1).counterexample.lanes(source=True),
    "progress_graph": lambda: progress_graph(expiring_lock, pauses=1),
    "progress_graph, doomed": lambda: progress_graph(lost_update),
    "progress_graph, unreached": lambda: progress_graph(short_lease),
    "state_graph": lambda: state_graph(naive, crashes=1),
    "heatmap": lambda: heatmap(expiring_lock, clock=True, executions=10),
    "fix_ladder": lambda: fix_ladder(ladder()),
    "deploy_timeline": lambda: deploy_timeline(Rollout(drains=False, visibility_timeout=120).run()),
    "deploy_timeline, killed": lambda: deploy_timeline(Rollout(job_seconds=100, visibility_timeout=120).run()),
    "timeout_tuner": lambda: timeout_tuner(p50=20, p95=25, chosen=30),
}
TEXT, MARK = 4.5, 3  # the least contrast of text and of what is no text, as WCAG 2.2 asks for


@pytest.fixture(scope="module")
def picture():
    """A picture by name, drawn once."""
    drawn = {}

    def get(name):
        if name not in drawn:
            drawn[name] = PICTURES[name]()
            drawn[name].png()
        return drawn[name]

    return get


def ground(axes, x, y):
    """The colour under a point of some axes: that of the uppermost rectangle there, or the paper."""
    at = axes.transData.transform((x, y))
    under = [
        (patch.get_zorder(), number, patch.get_facecolor())
        for number, patch in enumerate(axes.patches)
        if isinstance(patch, Rectangle) and patch.get_fill() and patch.get_window_extent().contains(*at)
    ]
    return max(under)[2] if under else to_rgba(style.PAPER)


def faint_texts(picture):
    """The texts that have too little contrast with what lies under any part of them."""
    renderer = picture.figure.canvas.get_renderer()
    found = []
    for axes in picture.figure.axes:
        for text in [*axes.texts, *((*axes.get_xticklabels(), *axes.get_yticklabels()) if axes.axison else ())]:
            box = text.get_window_extent(renderer)
            middle, places = (box.y0 + box.y1) / 2, (box.x0 + 1, (box.x0 + box.x1) / 2, box.x1 - 1)
            points = [axes.transData.inverted().transform((x, middle)) for x in places]
            paper = text.get_bbox_patch()
            grounds = [paper.get_facecolor()] if paper is not None else [ground(axes, *point) for point in points]
            if any(contrast(text.get_color(), under[:3]) < TEXT for under in grounds):
                found.append(text.get_text())
    return found


def faint_marks(picture):
    """The markers whose edge and face both have too little contrast with what lies under them."""
    found = []
    for axes in picture.figure.axes:
        for line in axes.lines:
            if line.get_marker() in ("None", None, "") or len(line.get_xdata()) != 1:
                continue
            under = ground(axes, line.get_xdata()[0], line.get_ydata()[0])[:3]
            colors = [line.get_color(), line.get_markeredgecolor(), line.get_markerfacecolor()]
            above = max((contrast(color, under) for color in colors), default=21)
            # A light cross on a dark state: the state is a marker too.
            halo = any(
                other is not line
                and len(other.get_xdata()) == 1
                and (other.get_xdata()[0], other.get_ydata()[0]) == (line.get_xdata()[0], line.get_ydata()[0])
                and max(contrast(color, other.get_markerfacecolor()) for color in colors) >= MARK
                for other in axes.lines
            )
            if above < MARK and not halo:
                found.append((line.get_marker(), line.get_xdata()[0], line.get_ydata()[0]))
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_text_has_enough_contrast_with_what_lies_under_it(name, picture):
    assert not faint_texts(picture(name))


@pytest.mark.parametrize("name", PICTURES)
def test_marks_have_enough_contrast_with_what_lies_under_them(name, picture):
    assert not faint_marks(picture(name))


def test_text_and_marks_that_are_too_faint_are_found():
    drawn = progress_graph(check_then_set)
    (axes,) = drawn.figure.axes
    axes.text(0.5, 0.1, "faint", color=style.ORANGE)
    axes.plot([0.5], [0.2], "o", color=style.FAINT)
    dark = next(patch for patch in axes.patches if to_rgba(style.DARK_ALARM) == patch.get_facecolor())
    middle = dark.get_x() + dark.get_width() / 2, dark.get_y() + dark.get_height() / 2
    axes.text(*middle, "dark on dark", color=style.INK, ha="center")
    drawn.png()
    assert faint_texts(drawn) == ["faint", "dark on dark"]
    assert [marker for marker, _, _ in faint_marks(drawn)] == ["o"]


def in_grey(color):
    """A colour as a printer without colours shows it."""
    return round(luminance(to_rgb(color)), 2)


def pairs_alike_in_grey(shades):
    """The kinds of area that differ in nothing but colour."""
    return [
        (one, other)
        for (one, left), (other, right) in itertools.combinations(shades.items(), 2)
        if left.symbol == right.symbol and left.hatch == right.hatch and contrast(left.face, right.face) < 1.5
    ]


@pytest.mark.parametrize("shades", [FATES, OUTCOMES], ids=["progress_graph", "fix_ladder"])
def test_areas_differ_in_symbol_hatch_or_greyness(shades):
    assert not pairs_alike_in_grey(shades)
    for shade in shades.values():
        assert not shade.symbol or contrast(shade.ink, shade.face) >= TEXT


def test_areas_that_differ_in_colour_alone_are_found():
    red, green = style.Shade("#B00000", "", "", "", ""), style.Shade("#006A00", "", "", "", "")
    assert pairs_alike_in_grey({"bad": red, "good": green}) == [("bad", "good")]


def test_the_shares_of_a_heatmap_grow_darker_and_what_is_missing_has_a_pattern_of_its_own():
    greys = [in_grey(shade_of(share).face) for share in (0, 0.25, 0.5, 0.75, 1)]
    assert greys == sorted(greys, reverse=True)
    assert len(set(greys)) == 5
    assert style.ABSENT.hatch


@pytest.mark.parametrize("part", ["marker", "hatch", "dashes"])
def test_workers_differ_in_shape_pattern_and_dashes(part):
    looks = [style.look(index) for index in range(7)]
    assert len({getattr(each, part) for each in looks}) == 7
    assert len({style.DASHES[each.dashes] for each in looks}) == 7


def test_the_two_curves_of_the_tuner_differ_in_marker_and_dashes(picture):
    for axes in picture("timeout_tuner").figure.axes[1:]:
        curves = [line for line in axes.lines if line.get_marker() in ("o", "s")]
        assert len({line.get_marker() for line in curves}) == 2
        assert len({line.get_linestyle() for line in curves}) == 2
        uprights = [line for line in axes.lines if line.get_marker() == "None"]
        assert len({(str(line._dash_pattern), line.get_linewidth()) for line in uprights}) == len(uprights) == 3


def test_what_is_begun_again_differs_in_the_width_of_its_line_and_in_its_words(picture):
    (axes,) = picture("deploy_timeline").figure.axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_linewidth() > 1]
    again = {patch.get_linewidth() for patch in bars if patch.get_facecolor() == to_rgba(style.ALARM_PAPER)}
    once = {patch.get_linewidth() for patch in bars if patch.get_facecolor() == to_rgba(style.PAPER)}
    assert min(again) > max(once)


def test_the_thick_path_is_told_from_other_lines_by_its_width(picture):
    (axes,) = picture("state_graph").figure.axes
    widths = {patch.get_linewidth() for patch in axes.patches}
    assert widths == {1, 3}


@pytest.mark.parametrize("name", PICTURES)
def test_alternative_text_is_in_the_html_and_no_typical_picture_has_to_be_scrolled(name, picture):
    assert f'alt="{html.escape(picture(name).alt)}"' in picture(name).html
    assert "min-width" not in picture(name).html


def test_a_picture_wider_than_a_notebook_is_scrolled_and_not_shrunk_until_nobody_can_read_it():
    wide = Picture(canvas(20, 1)[0], "A wide picture.", "wide")
    assert f"min-width:{0.7 * 20 * style.DPI:.0f}px" in wide.html
