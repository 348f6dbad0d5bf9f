"""Time and chance inside workers are the lab's, and everybody else's stay real."""

import datetime
import random
import secrets
import threading
import time
import uuid
from datetime import datetime as bound_datetime
from time import monotonic as bound_monotonic
from time import sleep as bound_sleep

import pytest

from labkit import LabError, explore, replay, run

real_monotonic = time.monotonic


def worker_scenario(work):
    def scenario(lab):
        lab.worker("A", work, lab.redis())

    return scenario


def test_a_sleep_takes_no_real_time_and_moves_the_labs_clock():
    def work(r):
        before = time.monotonic()
        time.sleep(45)
        r.set("slept", round(time.monotonic() - before))

    started = real_monotonic()
    trace = run(worker_scenario(work))
    assert real_monotonic() - started < 30
    assert trace.events[-1].text == "SET slept 45"
    assert trace.events[-1].time == 45_000_000


def test_names_bound_before_follow_the_labs_clock_too():
    def work(r):
        before = bound_monotonic()
        bound_sleep(3600)
        r.set("slept", round(bound_monotonic() - before))
        r.set("today", bound_datetime.now(datetime.UTC).isoformat())

    trace = run(worker_scenario(work))
    assert [event.text for event in trace.events if event.kind == "command"] == [
        "SET slept 3600",
        "SET today 2026-01-01T10:00:00+00:00",
    ]


def test_other_threads_and_later_code_see_real_time():
    seen = []

    def watch():
        while not stop.wait(0.001):
            seen.append(time.time())

    def work(r):
        time.sleep(1_000_000)

    before, stop = time.time(), threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    while len(seen) < 3:
        run(worker_scenario(work))
    stop.set()
    thread.join()
    assert seen
    assert all(before <= moment <= time.time() for moment in seen)
    assert isinstance(datetime.datetime.now(), datetime.datetime)
    assert abs(datetime.datetime.now().timestamp() - time.time()) < 60
    assert time.sleep is bound_sleep


def test_datetimes_made_inside_are_real_datetimes():
    def work(r):
        now = datetime.datetime.now(datetime.UTC)
        assert isinstance(now, datetime.datetime)
        assert isinstance(datetime.datetime(2026, 1, 1), datetime.date)
        r.set("day", str(now.date()))

    assert run(worker_scenario(work)).events[-1].text == "SET day 2026-01-01"


def test_everything_random_is_seeded_per_worker():
    def work(r):
        values = [uuid.uuid4(), uuid.uuid1(), random.random(), secrets.token_hex(4), random.choice("abcdef")]
        r.set("values", " ".join(map(str, values)))

    def scenario(lab):
        lab.worker("A", work, lab.redis())
        lab.worker("B", work, lab.redis())

    first, second = run(scenario).events
    assert first.text != second.text
    assert run(scenario).events == run(scenario).events
    assert run(scenario, seed=1).events[0].text not in (first.text, second.text)
    assert random.random() != random.random()


def test_keys_expire_at_their_deadline_and_not_a_moment_later():
    def work(r):
        r.set("k", 1, px=1500)
        time.sleep(1.5)
        r.get("k")

    assert run(worker_scenario(work)).events[-1].reply == "nil"


def test_the_clock_goes_to_the_next_deadline():
    def work(r):
        r.set("k", 1, ex=10)
        time.sleep(25)
        r.get("k")

    trace = run(worker_scenario(work))
    assert str(trace.schedule) == "A clock clock A A"
    assert [event.time // 10**6 for event in trace.events] == [0, 10, 25, 25, 25]
    assert trace.events[1].writes == ("k",)


def test_sleeps_and_clock_reads_do_not_count_for_the_length():
    def work(r):
        time.time()
        time.sleep(1)
        r.get("k")

    assert run(worker_scenario(work)).length == 2  # the clock choice and the GET


def test_a_step_that_reads_the_clock_makes_the_time_part_of_the_state():
    """Merging states that differ in nothing but the time would lose one of the two outcomes."""

    def scenario(lab):
        jobs = lab.redis()

        def late(r):
            r.set("started", 1, ex=30)
            r.set("stamp", round(time.monotonic()))

        lab.worker("A", late, lab.redis())
        lab.at_end("the stamp is early", lambda: jobs.get("stamp") == b"0")

    assert explore(scenario).outcome == "holds"
    assert explore(scenario, pauses=1).outcome == "violated"


def test_set_up_cannot_sleep():
    with pytest.raises(LabError, match="take no time"):
        run(lambda lab: time.sleep(1))


def test_the_time_command_answers_the_labs_clock():
    def work(r):
        time.sleep(2)
        r.set("now", r.time()[0])

    assert run(worker_scenario(work)).events[-1].text == "SET now 1767258002"
    assert replay(worker_scenario(work), "clock A A").events[2].reply == "[1767258002, 0]"
