"""The lane diagram as SVG: what the picture says, in the same places."""

import re
from xml.etree import ElementTree

import pytest

from labkit import explore, replay
from labkit.plots.lanes_svg import FONT, lanes_svg
from labkit.plots.style import look
from tests.pictures import texts
from tests.programs import article_fix, naive

NAME = "{http://www.w3.org/2000/svg}"


def parsed(trace):
    text = lanes_svg(trace).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return ElementTree.fromstring(text)


@pytest.mark.parametrize("schedule", ["A clock B A A A A", "A A A crash:A B", "A lose:A clock B B", "A A lose:A"])
def test_the_words_are_those_of_the_picture(schedule):
    trace = replay(article_fix, schedule)
    words = [text.text for text in parsed(trace).iter(f"{NAME}text")]
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
