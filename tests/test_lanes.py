"""The lane diagram: what is in it, in words and in shapes."""

import contextlib
import signal
import threading
import time

import pytest
import redis
from matplotlib.colors import to_hex

from labkit import explore, replay, run
from labkit.plots import heatmap, progress_graph, style
from labkit.plots.intervals import Interval, intervals
from labkit.plots.page import Page
from labkit.queues import VisibilityQueue
from tests.pictures import assert_readable, contrast, texts
from tests.programs import LOCK, article_fix, naive

EXPIRY = "A clock B A A A A"


def test_every_command_and_effect_stands_in_the_picture():
    picture = explore(naive).counterexample.lanes()
    shown = texts(picture)
    assert "GET job_status:1 -> in-progress" in shown
    assert shown.count("events.publish(job-1)") == 2
    assert shown.count("events") == 2
    assert "✗ breaks: the event is published at most once" in shown


def boxes(picture):
    """The face and the pattern of each bar and alarm of a picture."""
    return [
        (to_hex(patch.get_facecolor()).upper(), patch.get_hatch() or "") for patch in picture.figure.axes[0].patches
    ]


def test_a_row_that_breaks_a_property_lies_on_alarm_paper():
    assert boxes(explore(naive).counterexample.lanes()).count((style.ALARM_PAPER, "")) == 1


def test_a_belief_in_a_lock_is_a_bar_in_the_pattern_of_its_worker_and_a_section_a_solid_one():
    picture = replay(article_fix, "A clock B").lanes()
    for place in (0, 1):
        look = style.look(place)
        assert boxes(picture).count((style.PAPER, look.hatch)) == 2  # the belief, and the key in Redis
        assert boxes(picture).count((look.color, "")) == 1


def test_the_clocks_row_names_the_keys_that_are_gone():
    assert f"clock: 30 s pass; gone: {LOCK}" in texts(replay(article_fix, EXPIRY).lanes())


def test_a_lane_ends_where_its_worker_returns_or_is_killed():
    for schedule in ("A A A crash:A B", "A crash:A clock B B B B B"):
        trace = replay(article_fix, schedule)
        page = Page(trace, source=False)
        lanes = [line for line in trace.lanes().figure.axes[0].lines if len(line.get_ydata()) == 2]
        ends = {line.get_color(): line.get_ydata()[1] for line in lanes if line.get_linewidth() == 1.6}
        for place, name in enumerate("AB"):
            gone = [event for event in trace.events if event.worker == name and (event.ending or event.kind == "crash")]
            end = page.rows[gone[-1].number] if gone else page.bottom
            assert ends[style.look(place).color] == end


def test_a_threads_lane_ends_when_it_ends_and_its_workers_goes_on():
    def work(r):
        thread = threading.Thread(target=lambda: r.set("beat", 1), name="beat")
        thread.start()
        thread.join()
        r.set("key", 1)

    def scenario(lab):
        lab.worker("A", work, lab.redis())

    trace = replay(scenario, "A/beat A A")
    page = Page(trace, source=False)
    gone = next(event.number for event in trace.events if event.worker == "A/beat" and event.ending)
    assert page.lane_end("A/beat") == page.rows[gone] < page.lane_end("A")


def test_a_call_that_a_service_has_had_before_has_no_effect_outside():
    def pay_twice(payments):
        payments.call("order-1", idempotency_key="k")
        payments.call("order-1", idempotency_key="k")

    def scenario(lab):
        lab.worker("A", pay_twice, lab.service("payments", deduplicates=True))

    shown = texts(replay(scenario, "A A").lanes())
    assert (shown.count("payments"), shown.count("no effect")) == (1, 1)


def test_the_source_line_stands_beside_each_step_on_request():
    trace = explore(naive).counterexample
    assert not any(text.startswith("line ") for text in texts(trace.lanes()))
    assert sum(text.startswith("line ") for text in texts(trace.lanes(source=True))) == 6


@pytest.mark.parametrize("schedule", [EXPIRY, "A A A crash:A B", "A crash:A clock B B B B B"])
@pytest.mark.parametrize("source", [False, True])
def test_no_two_labels_overlap(schedule, source):
    assert_readable(replay(article_fix, schedule).lanes(source=source))


def test_labels_that_overlap_are_found():
    picture = replay(article_fix, EXPIRY).lanes()
    picture.figure.axes[0].text(1.2, 0.25, "over worker A")
    with pytest.raises(AssertionError, match="over worker A"):
        assert_readable(picture)


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
    assert_readable(picture)
    width, height = picture.figure.get_size_inches()
    assert height > 50 * 0.25
    assert width < 14
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

    assert contrast(color, paper) >= 4.5


def test_a_key_that_the_set_up_made_belongs_to_nobody():
    def scenario(lab):
        lab.redis().set("k", 1, ex=60)
        lab.worker("A", lambda r: r.get("k"), lab.redis())

    assert intervals(replay(scenario, "A")) == [Interval("ttl", "k", None, 1, 1, "open")]


def test_setnx_takes_a_lock_and_unlink_gives_it_back_whatever_became_of_the_key():
    def scenario(lab):
        def work(r):
            r.setnx("lock", "mine")
            r.unlink("lock")
            r.get("k")

        lab.worker("A", work, lab.redis())
        lab.worker("B", lambda r: r.delete("lock"), lab.redis())

    assert intervals(replay(scenario, "A B A A")) == [Interval("hold", "lock", "A", 1, 3, "left")]


def test_extending_a_lock_does_not_end_the_belief_in_it():
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


def every_fault(lab):
    """Two workers to whom everything happens that can."""

    def write(r, db, mail):
        with contextlib.suppress(redis.TimeoutError):
            r.set("lock", "A", nx=True, ex=30)
        db.execute("CREATE TABLE jobs (id INTEGER)")
        with contextlib.suppress(TimeoutError):
            mail.send("order-1")
        time.sleep(5)
        db.commit()

    def read(r):
        signal.signal(signal.SIGTERM, lambda *_: None)
        r.incr("k")
        time.sleep(40)
        time.time()

    lab.worker("A", write, lab.redis(), lab.sql(), lab.mail, signals=1)
    lab.worker("B", read, lab.redis(), signals=1, jump=60)
    lab.replica(behind=2)


FAULTS = "lose:A A lose:A B signal:B jump:B failover clock signal:A clock"


def test_every_fault_has_its_words_and_its_mark():
    picture = replay(every_fault, FAULTS).lanes()
    assert_readable(picture)
    bold = {text.get_text() for text in picture.figure.axes[0].texts if text.get_fontweight() == "bold"}
    assert bold >= {
        "SET lock A NX EX 30 -> the reply is lost",
        "mail.send(order-1) -> the reply is lost",
        "gets SIGTERM",
        "its wall clock jumps by +60 s",
        "failover: a replica takes over; writes lost: k, lock",
        "gets SIGTERM and is killed by it",
    }
    markers = [line.get_marker() for line in picture.figure.axes[0].lines]
    assert markers.count("x") == 2  # lost replies
    assert markers.count("X") == 1  # a death
    dark = [line for line in picture.figure.axes[0].lines if line.get_markeredgecolor() == style.DARK_ALARM]
    assert sum(line.get_marker() == style.look(1).marker for line in dark) == 2  # a signal and a jump of B
    said = " ".join(texts(picture))
    assert "✗ before a store: it was done, and the reply is lost" in said
    assert "empty bar: a transaction is open" in said


def test_a_transaction_is_open_until_the_commit_or_the_end_of_its_worker():
    open_until_killed = intervals(replay(every_fault, FAULTS))
    assert Interval("transaction", "transaction", "A", 2, 9, "killed", "sql") in open_until_killed
    committed = intervals(replay(every_fault, "A A A clock A A"))
    assert Interval("transaction", "transaction", "A", 2, 6, "left", "sql") in committed


def two_receivers(lab):
    """Two workers and two messages, hidden for ten seconds."""

    def work(r, delete):
        queue = VisibilityQueue(r, "jobs")
        (message,) = queue.receive()
        time.sleep(1 if delete else 20)
        if delete:
            queue.delete(message.receipt_handle)

    queue = VisibilityQueue.create(lab.redis(), "jobs", visibility_timeout=10)
    queue.send("one")
    queue.send("two")
    lab.worker("A", work, lab.redis(), True)
    lab.worker("B", work, lab.redis(), False)
    lab.deadlines(queue.deadlines)


def test_a_message_is_hidden_from_its_receive_until_it_is_deleted_or_its_time_is_over():
    trace = replay(two_receivers, "A A B B clock A A clock")
    found = intervals(trace)
    assert Interval("deadline", "jobs-000001", "A", 2, 7, "deleted") in found
    assert Interval("deadline", "jobs-000002", "B", 4, 8, "expired") in found
    picture = trace.lanes()
    assert_readable(picture)
    assert {"jobs-000001", "jobs-000002", "clock: 9 s pass; due: jobs-000002"} <= set(texts(picture))


def test_statements_go_to_the_database_and_commands_to_redis():
    def scenario(lab):
        def work(r, db):
            r.get("k")
            db.execute("SELECT 1")

        lab.worker("A", work, lab.redis(), lab.sql())

    picture = replay(scenario, "A A").lanes()
    assert {"Redis", "SQL"} <= set(texts(picture))
    arrows = [line.get_xdata()[0] for line in picture.figure.axes[0].lines if line.get_marker() == ">"]
    assert arrows[0] < arrows[1]


def test_a_long_command_leaves_room_for_its_reply():
    def scenario(lab):
        lab.worker("A", lambda db: db.execute(f"SELECT 7 AS {'a' * 200}"), lab.sql())

    trace = replay(scenario, "A")
    assert any(text.startswith("SELECT 7 AS aaa") and text.endswith("… -> (7,)") for text in texts(trace.lanes()))
    rows = trace.table().splitlines()
    assert max(map(len, rows)) < 130
    assert "…  (7,)" in rows[1]
    assert "a" * 200 in trace.table(full=True)


def test_a_violation_stands_behind_a_long_reply_that_is_cut():
    def scenario(lab):
        def work(r, section):
            r.get("k")
            with section("inside"):
                r.get("k")

        lab.redis().set("k", "v" * 300)
        lab.worker("A", work, lab.redis(), lab.section)
        lab.always("nobody is inside", lambda: lab.inside("inside") == 0)

    assert replay(scenario, "A").table().splitlines()[1].endswith("vvv…  <-- breaks 'nobody is inside'")


def prices(lab):
    for name in "AB":
        lab.worker(name, lambda r, mail: (r.set("price", "$5 or $7^2"), mail.send("注文 $\\x$")), lab.redis(), lab.mail)
    lab.always("one mail 📧 of $5 for $x", lambda: lab.mail.count() <= 1)


def test_a_dollar_is_a_dollar_and_a_letter_that_the_font_lacks_is_no_warning(recwarn):
    for picture in (explore(prices).counterexample.lanes(), progress_graph(prices), heatmap(prices, executions=10)):
        assert picture.png()
        assert not any(text.get_parse_math() for axes in picture.figure.axes for text in axes.texts)
    assert not recwarn.list


def letters(r, mail):
    r.set("two\nlines", "a\tb\r\nc\x00\x1b[31m", ex=5)
    r.get("two\nlines")
    mail.send("Dear A,\n\nbye")


def test_a_step_is_one_line_whatever_keys_and_values_there_are():
    def scenario(lab):
        lab.worker("A", letters, lab.redis(), lab.mail)
        lab.always("no\nmail", lambda: lab.mail.count() == 0)

    trace = explore(scenario).counterexample
    assert [event.text for event in trace.events] == [
        r"SET two\nlines a\tb\r\nc\x00\x1b[31m EX 5",
        r"GET two\nlines",
        r"mail.send(Dear A,\n\nbye)",
    ]
    assert trace.events[1].reply == r"a\tb\r\nc\x00\x1b[31m"
    assert len(trace.table().splitlines()) == 1 + len(trace.events) + 2
    assert "\\nmail" in str(texts(trace.lanes()))
    assert_readable(trace.lanes())


@pytest.mark.parametrize("seconds", [0.000123, 86_400.25, 1_209_600.123456])
def test_times_are_exact_and_have_the_room_they_need(seconds):
    def scenario(lab):
        lab.worker("A", lambda r: time.sleep(seconds) or r.get("k"), lab.redis())

    trace = run(scenario)
    assert trace.events[0].seconds == f"{seconds} s"
    assert trace.events[1].text == f"wakes after {seconds} s"
    assert any(f" {seconds} s" in text for text in texts(trace.lanes()))
    assert_readable(trace.lanes())
    assert_readable(trace.spans().waterfall())
