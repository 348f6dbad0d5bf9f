"""The lane diagram: what is in it, in words and in shapes."""

import pytest
from matplotlib.colors import to_rgb

from labkit import explore, replay
from labkit.plots import style
from labkit.plots.intervals import Interval, intervals
from tests.programs import LOCK, article_fix, naive

EXPIRY = "A clock B A A A A"


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_every_command_and_effect_stands_in_the_picture():
    picture = explore(naive).counterexample.lanes()
    shown = texts(picture)
    assert "GET job_status:1 -> in-progress" in shown
    assert shown.count("events.publish(job-1)") == 2
    assert shown.count("events") == 2
    assert "✗ breaks: the event is published at most once" in shown


def test_the_source_line_stands_beside_each_step_on_request():
    trace = explore(naive).counterexample
    assert not any(text.startswith("line ") for text in texts(trace.lanes()))
    assert sum(text.startswith("line ") for text in texts(trace.lanes(source=True))) == 6


def test_no_two_labels_overlap():
    for schedule in (EXPIRY, "A A A crash:A B", "A crash:A clock B B B B B"):
        picture = replay(article_fix, schedule).lanes(source=True)
        canvas = picture.figure.canvas
        picture.png()
        renderer = canvas.get_renderer() if hasattr(canvas, "get_renderer") else picture.figure._get_renderer()
        boxes = [text.get_window_extent(renderer) for text in picture.figure.axes[0].texts]
        width, height = picture.figure.get_size_inches() * picture.figure.dpi
        for index, box in enumerate(boxes):
            assert box.x0 >= 0
            assert box.x1 <= width + 1
            assert box.y0 >= 0
            assert box.y1 <= height
            for other in boxes[index + 1 :]:
                assert not box.shrunk(0.98, 0.8).overlaps(other), (schedule, box, other)


def test_a_lock_lives_in_redis_until_it_expires_while_its_holder_still_believes():
    found = intervals(replay(article_fix, EXPIRY))
    assert Interval("ttl", LOCK, "A", 1, 2, "expired") in found
    assert Interval("ttl", LOCK, "B", 3, 7, "deleted") in found
    assert Interval("hold", LOCK, "A", 1, 7, "left") in found
    assert Interval("hold", LOCK, "B", 3, 7, "open") in found
    assert Interval("section", "holding the lock", "A", 1, 6, "left") in found


def test_a_killed_worker_holds_nothing_and_is_in_no_section():
    found = intervals(replay(article_fix, "A A crash:A"))
    assert Interval("hold", LOCK, "A", 1, 3, "killed") in found
    assert Interval("section", "holding the lock", "A", 1, 3, "killed") in found
    assert Interval("ttl", LOCK, "A", 1, 3, "open") in found


def test_a_picture_of_fifty_events_stays_readable():
    def scenario(lab):
        def work(r):
            for number in range(25):
                r.set(f"a-key-with-a-long-name-{number}", "and a value that is longer than any lane", ex=60)

        for name in "AB":
            lab.worker(name, work, lab.redis())

    picture = replay(scenario, " ".join("AB" * 25)).lanes()
    width, height = picture.figure.get_size_inches()
    assert height > 50 * 0.25
    assert width < 40
    assert "The last 5 steps:" in picture.alt


def test_the_picture_carries_alternative_text_and_a_text_twin():
    trace = explore(naive).counterexample
    picture = trace.lanes()
    html = picture._repr_mimebundle_()["text/html"]
    assert 'alt="Lane diagram of 6 steps by workers A, B.' in html
    assert "does not hold after step 6" in html
    assert picture._repr_mimebundle_()["text/plain"] == trace.table()


def test_the_same_trace_is_the_same_picture():
    trace = explore(naive).counterexample
    assert trace.lanes().png() == trace.lanes().png()


def test_workers_differ_in_colour_marker_and_hatch():
    looks = [style.look(index) for index in range(7)]
    for part in ("color", "marker", "hatch"):
        assert len({getattr(look, part) for look in looks}) == 7


@pytest.mark.parametrize("color", [style.INK, style.QUIET, style.DARK_ALARM])
@pytest.mark.parametrize("paper", [style.PAPER, style.ALARM_PAPER])
def test_text_has_enough_contrast(color, paper):
    """WCAG 2.2 asks for a ratio of at least 4.5 between text and ground."""

    def luminance(name):
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(name)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(color), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_key_that_the_set_up_made_belongs_to_nobody():
    def scenario(lab):
        lab.redis().set("k", 1, ex=60)
        lab.worker("A", lambda r: r.get("k"), lab.redis())

    assert intervals(replay(scenario, "A")) == [Interval("ttl", "k", None, 1, 1, "open")]


def test_extending_a_lock_does_not_end_the_belief_in_it():
    import redis

    def scenario(lab):
        def work(r):
            lock = redis.lock.Lock(r, "lock", timeout=10, blocking=False)
            lock.acquire()
            lock.extend(20)
            lock.release()
            r.get("k")

        lab.worker("A", work, lab.redis())

    found = intervals(replay(scenario, "A A A A"))
    assert Interval("hold", "lock", "A", 1, 3, "left") in found
    assert Interval("ttl", "lock", "A", 1, 3, "deleted") in found
