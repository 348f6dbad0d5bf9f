"""The deploy timeline: what happens to workers over what happens to jobs, redeliveries and duplicates marked."""

import html
import re
import time

import pytest
from matplotlib.patches import Rectangle

from labkit import replay, run
from labkit.incidents import DEPLOY, Rollout
from labkit.plots import deploy_timeline, fix_ladder
from labkit.plots.deploy import SHADED, WINDOW_TEXT
from labkit.plots.style import ALARM_PAPER, DARK_ALARM, PAPER
from labkit.plots.timeline import Job, timeline
from tests.pictures import assert_readable, markers, texts

KILLS = Rollout(drains=False, visibility_timeout=120)  # SIGTERM kills, and a minute later jobs come back
OVERRUN = Rollout(job_seconds=100, visibility_timeout=120)  # drains, and jobs outlast the grace period
DRAINS = Rollout()


@pytest.fixture(scope="module")
def traces():
    return {rollout: rollout.run() for rollout in (KILLS, OVERRUN, DRAINS)}


def bars(picture, face):
    """The bars of a picture with that face, from left to right: where each begins and ends."""
    (axes,) = picture.figure.axes
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_hatch()]
    wanted = [patch for patch in found if patch.get_facecolor() == pytest.approx(_rgba(face))]
    return sorted((patch.get_x(), patch.get_x() + patch.get_width()) for patch in wanted)


def _rgba(color):
    return (*(int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)), 1)


def second(picture, seconds):
    """Where a time stands, from the labels of the axis."""
    (axes,) = picture.figure.axes
    ticks = [(float(text.get_text()[:-2]), text.get_position()[0]) for text in axes.texts if _is_tick(text.get_text())]
    (zero, left), (last, right) = ticks[0], ticks[-1]
    return left + (seconds - zero) * (right - left) / (last - zero)


def _is_tick(text):
    return text.endswith(" s") and text[:-2].replace(".", "").isdigit()


def test_jobs_are_bars_from_the_receive_to_the_end_and_those_begun_again_are_shaded(traces):
    picture = deploy_timeline(traces[KILLS])
    once = [(0, 40), (0, 40), (40, 60), (40, 60), (50, 90), (50, 90)]
    again = [(160, 200), (160, 200)]
    for face, wanted in ((PAPER, once), (ALARM_PAPER, again)):
        places = [(second(picture, start), second(picture, end)) for start, end in wanted]
        assert [each for bar in bars(picture, face) for each in bar] == pytest.approx(
            [x for bar in places for x in bar]
        )


def test_a_redelivered_job_begins_when_its_message_is_visible_again(traces):
    shown = timeline(traces[KILLS])
    first = {job.name: job for job in shown.jobs if job.attempt == 1}
    assert len(shown.redelivered) == 2
    for job in shown.redelivered:
        assert first[job.name].ended == "killed"
        assert job.start == first[job.name].start + KILLS.visibility_timeout


def test_ready_polling_sigterm_and_sigkill_are_marked_at_their_times(traces):
    picture = deploy_timeline(traces[OVERRUN])
    found = markers(picture)
    for marker, seconds in (("^", 50), ("v", 60), ("X", 90)):
        places = [x for kind, x, _ in found if kind == marker and x > 0.5]  # those left of it are workers' own
        assert places == pytest.approx([second(picture, seconds)] * 2)
    shown = texts(picture)
    assert shown.count("ready, polls") == 2
    assert shown.count("SIGTERM") == 2
    assert {"SIGKILL in order-1", "SIGKILL in order-2"} <= set(shown)


def test_the_legend_says_whose_pattern_a_job_begins_with(traces):
    assert "with its worker's pattern" in " ".join(texts(deploy_timeline(traces[OVERRUN])))


def test_a_worker_that_does_not_drain_is_killed_by_sigterm(traces):
    shown = texts(deploy_timeline(traces[KILLS]))
    assert {"SIGTERM kills it in order-3", "SIGTERM kills it in order-4"} <= set(shown)


def test_effects_that_take_place_again_are_crosses_with_their_words(traces):
    trace = traces[KILLS]
    picture = deploy_timeline(trace)
    mails = [event.writes[0] for event in trace.events if event.kind == "call" and event.writes]
    twice = sorted({each.replace(":", " ", 1) for each in mails if mails.count(each) > 1})
    assert twice == ["mail order-3", "mail order-4"]
    assert sorted(text for text in texts(picture) if text.startswith("mail")) == [f"{each} again" for each in twice]
    crosses = [x for marker, x, _ in markers(picture) if marker == "x"]
    cut = [second(picture, 60)] * 2  # jobs that were cut off end in a cross too
    assert sorted(crosses) == pytest.approx(sorted([*cut, *[second(picture, 160)] * 2]))
    dots = [x for marker, x, _ in markers(picture) if marker == "o" and x > 0.5]
    assert len(dots) == len(mails) - len(twice)


def test_the_window_of_one_to_three_minutes_after_the_deploy_is_shaded_and_named(traces):
    picture = deploy_timeline(traces[OVERRUN])
    assert bars(picture, SHADED) == [pytest.approx((second(picture, 120), second(picture, 240)))]
    assert WINDOW_TEXT in texts(picture)


@pytest.mark.parametrize(("rollout", "count", "after"), [(KILLS, 2, 100), (OVERRUN, 0, 190)])
def test_the_sentence_counts_what_took_place_again_in_that_window(rollout, count, after, traces):
    said = deploy_timeline(traces[rollout]).alt
    assert f"{after} s after the first SIGTERM; {count} of them in the window of 1 to 3 minutes after it." in said


def test_a_deploy_that_drains_has_no_duplicate_no_cross_and_no_window(traces):
    picture = deploy_timeline(traces[DRAINS])
    assert "no effect took place twice" in picture.alt
    assert "leaves" in texts(picture)
    assert not bars(picture, ALARM_PAPER)
    assert not bars(picture, SHADED)
    assert WINDOW_TEXT not in texts(picture)
    assert "x" not in [marker for marker, _, _ in markers(picture)]


def test_every_moment_of_the_deploy_is_a_line_through_all_workers(traces):
    picture = deploy_timeline(traces[OVERRUN])
    (axes,) = picture.figure.axes
    rows = [y for marker, x, y in markers(picture) if x < 0.5]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "--"]
    through = [line for line in lines if min(line.get_ydata()) < min(rows) and max(line.get_ydata()) > max(rows)]
    assert [line.get_xdata()[0] for line in through] == pytest.approx([second(picture, 60), second(picture, 90)])


def test_workers_without_jobs_and_a_trace_without_a_deploy_are_drawn_too():
    def scenario(lab):
        lab.worker("A", lambda r: r.get("k") or time.sleep(3), lab.redis())

    picture = deploy_timeline(replay(scenario, "A clock A"))
    assert_readable(picture)
    assert "No job; no effect took place twice." in picture.alt


def test_a_workers_line_is_dotted_until_it_is_ready_and_solid_until_it_is_gone(traces):
    picture = deploy_timeline(traces[OVERRUN])
    (axes,) = picture.figure.axes
    born, ready, killed = (second(picture, seconds) for seconds in (0, 50, 90))
    level = [line for line in axes.lines if len(line.get_ydata()) == 2 and len(set(line.get_ydata())) == 1]
    dotted = [tuple(line.get_xdata()) for line in level if line.get_linewidth() == 1.6]
    solid = [tuple(line.get_xdata()) for line in level if line.get_linewidth() == 1.8]
    assert dotted[2:] == [pytest.approx((born, ready))] * 2  # those of the new workers
    assert solid[:2] == [pytest.approx((born, killed))] * 2  # those of the old ones


def test_a_worker_that_raises_is_marked_as_dark_as_one_that_is_killed():
    def scenario(lab):
        lab.worker("A", lambda r: r.incr("n") and r.lpush("n", 1), lab.redis())

    picture = deploy_timeline(run(scenario))
    (axes,) = picture.figure.axes
    assert "raises" in texts(picture)
    assert [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "X"] == [DARK_ALARM]


@pytest.mark.parametrize(
    "rollout",
    [
        *(KILLS, OVERRUN, DRAINS),
        Rollout(drains=False),
        Rollout(drains=False, jobs=12, job_seconds=90, visibility_timeout=30),
        Rollout(drains=False, jobs=24, job_seconds=5, visibility_timeout=30, ready=2, deploy=8, grace_period=1),
        Rollout(jobs=1, job_seconds=1),
    ],
    ids=str,
)
def test_no_two_labels_overlap_and_nothing_leaves_the_figure(rollout):
    trace = rollout.run()
    picture = deploy_timeline(trace)
    assert_readable(picture)
    assert picture.figure.get_size_inches()[0] <= 9.6


@pytest.mark.parametrize("seconds", [0.002, 7, 5_000, 200_000, 1_209_600.123456])
def test_ticks_keep_their_distance_however_long_it_lasts(seconds):
    def scenario(lab):
        lab.worker("a-worker-with-a-long-name", lambda r: time.sleep(seconds) or r.get("k"), lab.redis())

    picture = deploy_timeline(run(scenario))
    assert_readable(picture)
    assert len([text for text in texts(picture) if re.fullmatch(r"[\d.]+ s", text)]) > 1


def test_a_timeline_of_more_than_fifty_events_stays_readable():
    trace = Rollout(drains=False, jobs=24).run()
    assert len(trace.events) > 50
    assert_readable(deploy_timeline(trace))


def test_the_same_trace_is_the_same_picture(traces):
    assert deploy_timeline(traces[KILLS]).png() == deploy_timeline(KILLS.run()).png()


def test_the_alternative_text_and_the_twin_are_in_the_html(traces):
    picture = deploy_timeline(traces[KILLS])
    shown = picture._repr_mimebundle_()["text/html"]
    assert 'alt="Deploy timeline of 4 workers. 6 jobs, 2 of them begun once more; 2 effects took place again, ' in shown
    assert html.escape(picture.text) in shown
    lines = picture.text.splitlines()
    assert "    160 s  new-1  order-3 begins, attempt 2" in lines
    assert "     60 s  old-2  order-3 is cut off" in lines
    assert "    160 s  new-1  mail order-3 again" in lines


def test_a_job_that_two_workers_do_is_begun_once_more_by_the_second():
    def scenario(lab):
        def work(r, section):
            with section("order-1"):
                r.incr("n")
                r.incr("n")

        for name in "AB":
            lab.worker(name, work, lab.redis(), lab.section)

    jobs = timeline(replay(scenario, "A A B B")).jobs
    assert [(job.worker, job.attempt) for job in jobs] == [("A", 1), ("B", 2)]
    assert isinstance(jobs[0], Job)


def test_what_was_killed_is_marked_dark_and_crossed(traces):
    picture = deploy_timeline(traces[KILLS])
    (axes,) = picture.figure.axes
    dark = [line for line in axes.lines if line.get_marker() == "v" and line.get_markerfacecolor() == DARK_ALARM]
    assert len(dark) == 2


@pytest.mark.parametrize("numbers", [{"job_seconds": float("nan")}, {"grace_period": -1}, {"jobs": -1}, {"ready": "9"}])
def test_a_rollout_that_cannot_be_is_refused_in_words(numbers):
    (name,) = numbers
    with pytest.raises(ValueError, match=f"{name} is .*; it must be"):
        Rollout(**numbers)


def test_what_is_no_trace_and_no_ladder_is_refused_in_words():
    with pytest.raises(TypeError, match=r"shows a trace, such as .*, not Rollout"):
        deploy_timeline(Rollout())
    with pytest.raises(TypeError, match="what `climb\\(\\)` of an incident gives, not Incident"):
        fix_ladder(DEPLOY)


def test_one_job_is_one_job():
    assert "1 job, 0 of them" in deploy_timeline(Rollout(jobs=1).run()).text
