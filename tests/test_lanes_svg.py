"""The lane diagram as SVG: what the picture says, in the same places."""

import re
import time
from xml.etree import ElementTree

import pytest

from labkit import explore, replay, run
from labkit.plots.lanes_svg import FONT, INCH, lanes_svg
from labkit.plots.style import look
from tests.pictures import texts
from tests.programs import article_fix, naive
from tests.test_lanes import FAULTS, every_fault

NAME = "{http://www.w3.org/2000/svg}"


def parsed(trace):
    text = lanes_svg(trace).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return ElementTree.fromstring(text)


@pytest.mark.parametrize("schedule", ["A clock B A A A A", "A A A crash:A B", "A lose:A clock B B", "A A lose:A"])
def test_the_words_are_those_of_the_picture(schedule):
    trace = replay(article_fix, schedule)
    words = [text.text for text in parsed(trace).iter(f"{NAME}text")]
    assert sorted(words) == sorted(texts(trace.lanes()))


def of_the_picture(trace):
    """Its bars and alarms, lanes and crosses: where each is in pixels, and whether a bar has a pattern."""
    (axes,) = trace.lanes().figure.axes
    boxes = [(*patch.get_xy(), patch.get_width(), patch.get_height(), patch.get_hatch()) for patch in axes.patches]
    lanes = [line.get_xydata().ravel() for line in axes.lines if line.get_linewidth() == 1.6]
    marks = [line.get_marker() for line in axes.lines]
    return (
        sorted((*(f"{number * INCH:.1f}" for number in box), bool(hatch)) for *box, hatch in boxes),
        sorted(tuple(f"{number * INCH:.1f}" for number in lane) for lane in lanes),
        [marks.count("X"), marks.count("x")],
    )


def of_the_svg(trace):
    """The same of the SVG."""
    svg = parsed(trace)
    boxes = [box for box in svg.iter(f"{NAME}rect") if box.get("stroke")]
    lanes = [line for line in svg.iter(f"{NAME}line") if line.get("stroke-width") == "2.4"]
    dead = [shape for shape in svg.iter(f"{NAME}polygon") if len(shape.get("points").split()) == 12]
    lost = [path for path in svg.iter(f"{NAME}path") if path.get("stroke-width") == "3"]
    return (
        sorted((*map(box.get, ("x", "y", "width", "height")), box.get("fill").startswith("url")) for box in boxes),
        sorted(tuple(map(line.get, ("x1", "y1", "x2", "y2"))) for line in lanes),
        [len(dead), len(lost)],
    )


def set_up_key(lab):
    lab.redis().set("k", 1, ex=60)
    lab.worker("A", lambda r: r.get("k"), lab.redis())


@pytest.mark.parametrize(
    ("scenario", "schedule"),
    [
        (article_fix, "A clock B A A A A"),
        (article_fix, "A A A crash:A B"),
        (article_fix, "A A lose:A"),
        (every_fault, FAULTS),
        (set_up_key, "A"),
    ],
)
def test_bars_alarms_lanes_and_crosses_are_where_the_picture_has_them(scenario, schedule):
    trace = replay(scenario, schedule)
    assert of_the_svg(trace) == of_the_picture(trace)


def test_a_long_time_is_whole_as_in_the_picture():
    def scenario(lab):
        lab.worker("A", lambda r: time.sleep(1234.56) or r.get("k"), lab.redis())

    trace = run(scenario)
    words = [text.text for text in parsed(trace).iter(f"{NAME}text")]
    assert "   1 1234.56 s" in words
    assert sorted(words) == sorted(texts(trace.lanes()))


def test_no_two_words_meet():
    svg = parsed(explore(article_fix, crashes=1, pauses=1).counterexample)
    rows = {}
    for text in svg.iter(f"{NAME}text"):
        size = float(text.get("font-size", svg.get("font-size")))
        start = float(text.get("x"))
        rows.setdefault(text.get("y"), []).append((start, start + 0.602 * size * len(text.text.rstrip())))
    for spans in rows.values():
        for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= start


def test_it_has_the_alternative_text_and_the_marker_of_each_worker():
    trace = explore(naive).counterexample
    svg = parsed(trace)
    assert svg.get("role") == "img"
    assert svg.get("aria-label").startswith(f"Lane diagram of {len(trace.events)} steps")
    colors = {shape.get("fill") for shape in svg.iter() if shape.tag in (f"{NAME}circle", f"{NAME}polygon")}
    assert {look(0).color, look(1).color} <= colors
    assert "monospace" in FONT


def test_words_of_a_learner_are_no_markup():
    def scenario(lab):
        lab.worker("A", lambda r: r.set("<b>", "&"), lab.redis())

    assert re.search("SET &lt;b&gt; &amp;", lanes_svg(replay(scenario, "A")))


def test_it_is_the_same_each_time_and_small():
    trace = explore(article_fix, crashes=1, pauses=1).counterexample
    assert lanes_svg(trace) == lanes_svg(trace)
    assert len(lanes_svg(trace)) < len(trace.lanes().html) / 4


def test_two_pictures_on_a_page_share_no_pattern():
    one, other = (lanes_svg(replay(article_fix, schedule)) for schedule in ("A clock B", "A clock B A"))
    used = [set(re.findall(r"url\(#([^)]*)\)", svg)) for svg in (one, other)]
    assert used[0] <= set(re.findall('pattern id="([^"]*)"', one))
    assert all(used)
    assert not used[0] & used[1]
