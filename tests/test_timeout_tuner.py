"""The timeout tuner: its numbers are those of queues that are run and of simulated jobs, and it can be read."""

import html
import time

import pytest

from labkit import run
from labkit.plots import timeout_tuner
from labkit.queues import VisibilityQueue
from labkit.workers import log_normal, percentile, tune, tuning
from tests.pictures import assert_readable, texts

JOBS = log_normal(10, 40, count=12)
TIMEOUTS = [4, 7.5, 11, 20, 33, 60, 90]
PAUSED, PAUSE = 0.25, 9
MOMENTS = 600  # of a job, at which it is paused, or its worker crashes


def curves(picture):
    """What the four curves show: duplicates and recovery, each without and with a heartbeat."""
    _, duplicates, recovery = picture.figure.axes
    lines = [line for axes in (duplicates, recovery) for line in axes.lines if line.get_marker() in ("o", "s")]
    assert all(list(line.get_xdata()) == TIMEOUTS for line in lines)
    return [list(line.get_ydata()) for line in lines]


def moments(seconds):
    """Moments spread evenly over a stretch of time."""
    return [(place + 0.5) * seconds / MOMENTS for place in range(MOMENTS)]


def beats(job, timeout):
    """When a worker extends its message, that of the receive included."""
    return [place * timeout / 3 for place in range(int(job * 3 / timeout) + 1)]


def attempts(job, timeout, pause=0):
    """How many workers begin a job before the first of them ends it; the first of all is paused."""
    ends, begins = [job + pause], 0
    while begins + timeout < min(ends):
        begins += timeout
        ends.append(begins + job)
    return len(ends)


def is_visible(job, timeout, moment):
    """Whether a message with a heartbeat is visible in a pause that begins at a moment."""
    last = max(beat for beat in beats(job, timeout) if beat <= moment)
    return last + timeout < moment + PAUSE


def simulated(timeout):
    """The four numbers of a timeout, by following each job, and by trying each moment of a pause and of a crash."""
    duplicates = [
        (1 - PAUSED) * (attempts(job, timeout) - 1) + PAUSED * (attempts(job, timeout, PAUSE) - 1) for job in JOBS
    ]
    kept = [PAUSED * sum(is_visible(job, timeout, at) for at in moments(job)) / MOMENTS for job in JOBS]
    waits, weights, kept_waits = [], [], []
    for job in JOBS:
        alone = min(job, timeout)
        weights.append(alone)
        waits.append(alone * sum(timeout - at for at in moments(alone)) / MOMENTS)
        last = [max(beat for beat in beats(job, timeout) if beat <= at) for at in moments(job)]
        kept_waits.append(job * sum(map(lambda beat, at: beat + timeout - at, last, moments(job))) / MOMENTS)
    return (
        1_000 * sum(duplicates) / len(JOBS),
        1_000 * sum(kept) / len(JOBS),
        sum(waits) / sum(weights),
        sum(kept_waits) / sum(JOBS),
    )


@pytest.fixture(scope="module")
def simulation():
    return [list(numbers) for numbers in zip(*map(simulated, TIMEOUTS), strict=True)]


def fits(picture, simulation):
    """Whether every curve is that of the simulation, whose moments are not infinitely many."""
    pairs = zip(curves(picture), simulation, strict=True)
    return all(shown == pytest.approx(wanted, rel=0.01, abs=0.5) for shown, wanted in pairs)


def picture_of(paused=PAUSED, pause=PAUSE):
    return timeout_tuner(JOBS, timeouts=TIMEOUTS, paused=paused, pause=pause)


def test_the_four_curves_are_those_of_a_simulation(simulation):
    assert fits(picture_of(), simulation)


def forget_that_another_ends_first(monkeypatch):
    monkeypatch.setattr(tuning, "min", lambda pause, timeout: pause if pause == PAUSE else min(pause, timeout), False)


def beat_twice_as_often(monkeypatch):
    monkeypatch.setattr(tuning, "BEATS", 6)


def begin_again_at_the_last_moment(monkeypatch):
    monkeypatch.setattr(tuning, "_redeliveries", lambda job, timeout: int(job / timeout + 0.5))


def wait_for_the_whole_timeout(monkeypatch):
    monkeypatch.setattr(tuning, "_sum_since_beat", lambda job, beat: 0)


@pytest.mark.parametrize(
    "mutant",
    [
        forget_that_another_ends_first,
        beat_twice_as_often,
        begin_again_at_the_last_moment,
        wait_for_the_whole_timeout,
    ],
)
def test_numbers_with_a_defect_do_not_fit_the_simulation(mutant, monkeypatch, simulation):
    mutant(monkeypatch)
    assert not fits(picture_of(), simulation)


def one_job(seconds, timeout, pause=0, old_receipts="delete"):
    """How often a queue hands out a job; its first worker is paused, and there are as many as may be needed."""

    def work(r, jobs):
        queue = VisibilityQueue(r, "jobs")
        for message in next(filter(None, (queue.receive(wait=20) for _ in range(30))), []):
            jobs.call("job")
            time.sleep(seconds + (pause if message.receive_count == 1 else 0))
            queue.delete(message.receipt_handle)

    def scenario(lab):
        r = lab.redis()
        queue = VisibilityQueue.create(r, "jobs", visibility_timeout=timeout, old_receipts=old_receipts)
        queue.send("job")
        for name in "ABCDEF":
            lab.worker(name, work, lab.redis(), lab.mail, forever=True)
        lab.deadlines(queue.deadlines)

    return sum(event.kind == "call" for event in run(scenario).events)


@pytest.mark.parametrize(("seconds", "timeout"), [(10, 30), (29, 30), (45, 30), (90.5, 30), (31, 15), (7, 2)])
def test_a_real_queue_hands_a_job_out_as_often_as_the_numbers_say(seconds, timeout):
    (numbers,) = tune([seconds], [timeout], paused=0)
    assert one_job(seconds, timeout) == 1 + numbers.duplicates / 1_000


@pytest.mark.parametrize(("seconds", "timeout", "pause"), [(10, 30, 25), (10, 30, 200), (1, 5, 12), (8, 5, 3)])
def test_a_real_queue_hands_a_job_of_a_paused_worker_out_as_often_as_the_numbers_say(seconds, timeout, pause):
    (numbers,) = tune([seconds], [timeout], paused=1, pause=pause)
    assert one_job(seconds, timeout, pause) == 1 + numbers.duplicates / 1_000


def test_where_old_receipts_are_ignored_the_job_comes_back_to_every_worker_there_is():
    assert one_job(45, 30, old_receipts="ignore") == 6  # so the numbers are the best case, as `tune` says


def test_without_pauses_a_heartbeat_leaves_no_duplicate():
    assert curves(picture_of(paused=0))[1] == [0] * len(TIMEOUTS)


def test_a_shorter_timeout_has_more_duplicates_and_a_quicker_recovery():
    duplicates, _, recovery, kept = curves(picture_of(paused=0))
    assert duplicates == sorted(duplicates, reverse=True)
    assert recovery == sorted(recovery)
    assert kept == sorted(kept)


def test_the_median_and_the_95th_percentile_are_lines_at_their_places():
    picture = timeout_tuner(p50=10, p95=60)
    _, duplicates, recovery = picture.figure.axes
    for axes in (duplicates, recovery):
        assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "None"] == [10, 60]
    assert {"p50", "p95"} <= {text.strip() for text in texts(picture)}
    measured = timeout_tuner(JOBS)
    assert f"95 % up to {percentile(JOBS, 0.95):.3g} s" in measured.alt


def test_a_chosen_timeout_is_marked_and_told():
    picture = timeout_tuner(p50=20, p95=25, chosen=30)
    (numbers,) = tune(log_normal(20, 25), [30])
    recovery = picture.figure.axes[2]
    assert 30 in [line.get_xdata()[0] for line in recovery.lines if line.get_marker() == "None"]
    assert "30 s" in {text.strip() for text in texts(picture)}
    assert f"30 s: without a heartbeat {numbers.duplicates:.3g} duplicates in 1,000 jobs" in picture.alt


def test_the_sentences_name_the_shortest_timeout_with_few_duplicates():
    picture = timeout_tuner(JOBS, timeouts=TIMEOUTS, paused=0)
    rows = tune(JOBS, TIMEOUTS, paused=0)
    short = next(row.timeout for row in rows if row.duplicates <= 1)
    assert f"Without a heartbeat, {short:g} s is the shortest timeout here" in picture.text
    assert "With a heartbeat, 4 s is the shortest timeout here" in picture.text


def test_the_text_twin_has_every_number():
    picture = picture_of()
    for row in tune(JOBS, TIMEOUTS, paused=PAUSED, pause=PAUSE):
        numbers = f"{row.duplicates:,.1f}", f"{row.duplicates_with_heartbeat:,.1f}", f"{row.recovery:,.1f}"
        (line,) = [line for line in picture.text.splitlines() if line.strip().startswith(f"{row.timeout:.3g} s  ")]
        assert all(number in line for number in numbers)


@pytest.mark.parametrize(
    "asked",
    [
        {"p50": 10, "p95": 60},
        {"p50": 20, "p95": 25, "chosen": 30},
        {"p50": 30, "p95": 30, "chosen": 30},
        {"durations": [0.05, 0.06, 900.0], "timeouts": [0.05, 1, 30, 4_000], "chosen": 1},
        {"p50": 0.5, "p95": 0.6, "chosen": 2.4},
        {"p50": 3_000, "p95": 40_000, "chosen": 160_000},
        {"durations": [45.0], "chosen": 22.5},
        {"durations": [1.0, 2.0], "timeouts": [30.0], "chosen": 30},
    ],
    ids=str,
)
def test_no_two_labels_overlap(asked):
    picture = timeout_tuner(**asked)
    assert_readable(picture)
    assert picture.figure.get_size_inches()[0] <= 9.6


def test_what_is_missing_or_said_twice_is_refused_in_words():
    with pytest.raises(ValueError, match="give durations, or both p50 and p95"):
        timeout_tuner(p50=10)
    with pytest.raises(ValueError, match="and not both"):
        timeout_tuner([1.0], p50=10)
    with pytest.raises(ValueError, match="durations is empty"):
        timeout_tuner([])
    with pytest.raises(ValueError, match="timeouts is empty"):
        timeout_tuner([1.0], timeouts=[])


def test_the_shortest_timeout_is_named_in_whatever_order_they_are_given():
    picture = timeout_tuner(p50=10, p95=60, timeouts=[90, 30, 60], chosen=12)
    assert picture.text == timeout_tuner(p50=10, p95=60, timeouts=[30, 60, 90], chosen=12).text
    assert "With a heartbeat, 30 s is the shortest timeout" in picture.text
    assert picture.alt.startswith("Visibility timeout from 30 s to 90 s")
    assert "e+" not in picture.text


def test_the_same_numbers_are_the_same_picture():
    assert picture_of().png() == picture_of().png()


def test_the_alternative_text_and_the_twin_are_in_the_html():
    picture = timeout_tuner(p50=10, p95=60)
    shown = picture._repr_mimebundle_()["text/html"]
    assert 'alt="Visibility timeout from 4.99 s to 239 s against duplicates and recovery. Half of ' in shown
    assert html.escape(picture.text) in shown
