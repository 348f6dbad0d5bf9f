"""A worker's threads are actors of its process: they share its memory and its fate."""

import concurrent.futures
import contextlib
import queue
import random
import subprocess
import sys
import threading
import time

import pytest

from labkit import Unsupported, explore, replay, run
from tests.random_programs import program_of


def lock_for_a_slow_job(heartbeat):
    """Two workers, a lease of 30 s, a job of 45 s; and perhaps a thread that extends the lease every 10 s."""

    def work(r):
        done = threading.Event()

        def beat():
            while not done.wait(10):
                r.expire("lock", 30)

        if r.set("lock", "mine", nx=True, ex=30):
            if heartbeat:
                threading.Thread(target=beat, daemon=True).start()
            time.sleep(45)
            r.incr("runs")
            done.set()
            r.delete("lock")

    def scenario(lab):
        r = lab.redis()
        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.always("the job runs once", lambda: int(r.get("runs") or 0) <= 1)

    return scenario


def test_a_heartbeat_thread_keeps_a_lease_that_is_shorter_than_the_job():
    assert explore(lock_for_a_slow_job(heartbeat=False)).outcome == "holds"  # B tries once, at the start
    assert explore(lock_for_a_slow_job(heartbeat=False), pauses=1).outcome == "violated"
    verdict = explore(lock_for_a_slow_job(heartbeat=True))
    assert verdict.outcome == "holds"
    assert verdict.states > explore(lock_for_a_slow_job(heartbeat=False)).states


def test_a_thread_is_named_in_schedules_and_replayed():
    trace = run(lock_for_a_slow_job(heartbeat=True), seed=1)
    assert any(event.worker in ("A/beat", "B/beat") for event in trace.events)
    again = replay(lock_for_a_slow_job(heartbeat=True), str(trace.schedule), seed=1)
    assert again.table() == trace.table()
    assert "A/beat" in trace.table() or "B/beat" in trace.table()
    assert "beat" in trace.lanes().alt


def test_a_crash_takes_the_threads_along():
    trace = replay(lock_for_a_slow_job(heartbeat=True), "A crash:A clock B")
    assert trace.events[2].seconds == "30 s"  # nobody extends the lease any more
    assert trace.events[3].reply == "OK"


def one(work, **options):
    def scenario(lab):
        lab.worker("A", work, lab.redis(), **options)
        lab.always("true", lambda: True)

    return scenario


def printed(work, seed=0):
    return [line.split(": ", 1)[1] for line in run(one(work), seed=seed).log().splitlines()]


def test_waiting_for_an_event_ends_when_it_is_set_or_the_time_is_over():
    def work(r):
        event = threading.Event()
        print(event.wait(5), time.monotonic())
        threading.Thread(target=lambda: (time.sleep(2), event.set())).start()
        print(event.wait(5), time.monotonic())

    assert printed(work) == ["False 5.0", "True 7.0"]


def test_join_waits_for_the_thread_and_a_process_ends_after_threads_that_are_no_daemons():
    def work(r, daemon):
        thread = threading.Thread(target=lambda: (time.sleep(3), r.set("late", 1)), daemon=daemon)
        thread.start()
        thread.join(1)
        print(thread.is_alive(), time.monotonic())

    for daemon, late in ((False, True), (True, False)):

        def scenario(lab, daemon=daemon, late=late):
            r = lab.redis()
            lab.worker("A", work, lab.redis(), daemon)
            lab.at_end("as it should be", lambda: bool(r.exists("late")) is late)

        trace = run(scenario)
        assert trace.log().split(": ", 1)[1] == "True 1.0"
        assert trace.over
        assert not trace.violations


def test_a_queue_between_two_threads_hands_over_what_was_put_in():
    def work(r):
        buffer = queue.Queue(maxsize=2)

        def fetch():
            for _ in range(3):
                buffer.put(r.lpop("jobs"))

        r.rpush("jobs", "1", "2", "3")
        threading.Thread(target=fetch, name="prefetch").start()
        for _ in range(3):
            r.rpush("done", buffer.get())

    def scenario(lab):
        r = lab.redis()
        lab.worker("A", work, lab.redis())
        lab.at_end("all done, in order", lambda: r.lrange("done", 0, -1) == [b"1", b"2", b"3"])

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert verdict.states > 8


def test_memory_is_not_shared_between_threads_where_it_is_thread_local():
    def work(r):
        lock = r.lock("lock", timeout=30)
        lock.acquire()

        def extend():
            try:
                lock.extend(30)
            except AttributeError as error:  # redis-py keeps the owner's token in a `threading.local`
                print(error)

        thread = threading.Thread(target=extend)
        thread.start()
        thread.join()
        lock.extend(30)

    assert printed(work) == ["'_thread._local' object has no attribute 'token'"]


def test_an_exception_ends_its_thread_and_not_the_process():
    def work(r):
        def fail():
            r.get("k")
            raise OSError("gone")

        threading.Thread(target=fail).start()
        time.sleep(1)
        r.set("went", "on")

    trace = run(one(work))
    assert "Exception in thread fail: OSError: gone" in trace.log()
    assert trace.events[-1].text == "SET went on"
    assert list(explore(one(work)).raised) == ["A/fail"]


def test_a_lost_reply_can_hit_a_thread():
    def work(r):
        lost = threading.Event()

        def beat():
            try:
                r.expire("lock", 30)
            except Exception:
                lost.set()

        threading.Thread(target=beat).start()
        print(lost.wait(1))

    trace = replay(one(work), "lose:A/beat A")
    assert trace.events[0].reply == "the reply is lost"
    assert trace.log().endswith("True")


def test_two_threads_that_wait_for_each_other_are_left_waiting_and_named():
    def work(r):
        one, other = threading.Lock(), threading.Lock()

        def backwards():
            with other:
                r.get("k")
                with one:
                    r.get("k")

        threading.Thread(target=backwards).start()
        with one:
            r.get("k")
            with other:
                r.get("k")

    def scenario(lab):
        lab.worker("A", work, lab.redis())
        lab.at_end("true", lambda: True)

    verdict = explore(scenario)
    assert verdict.waiting == {"A": "waits for a thread"}


def test_a_schedule_with_threads_is_the_same_on_a_real_server(redis_url):
    for seed in range(5):
        schedule = run(lock_for_a_slow_job(heartbeat=True), seed=seed).schedule
        trace = replay(lock_for_a_slow_job(heartbeat=True), schedule, seed=seed, redis_url=redis_url)
        assert trace.comparison.compared > 5
        assert not trace.comparison.not_comparable


def test_sigterm_reaches_the_first_thread_and_the_others_go_on():
    import signal

    def work(r):
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())

        def poll():
            while not stop.wait(10):
                r.lpop("jobs")

        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()
        r.set("drained", 1)

    trace = replay(one(work, signals=1), "clock A/poll A/poll signal:A A/poll A A")
    assert [event.text for event in trace.events][-1] == "SET drained 1"


@pytest.mark.parametrize("start", [lambda: concurrent.futures.ThreadPoolExecutor().submit(print), "process"])
def test_what_the_lab_cannot_step_is_refused(start):
    def work(r):
        if start == "process":
            subprocess.run([sys.executable, "-c", "pass"])
        start()

    with pytest.raises(Unsupported, match=r"its threads are those of `threading\.Thread`"):
        run(one(work))


def outcomes(scenario):
    """Every way in which the store can be left, and which properties can break at what length."""
    verdict = explore(scenario)
    return {name: trace.length for name, trace in verdict.violations.items()}


@pytest.mark.parametrize("seed", range(25))
def test_two_threads_of_one_worker_do_to_redis_what_two_workers_do(seed):
    chance = random.Random(seed)
    kinds = ("get", "set", "effect", "sleep", "take", "if", "transaction")
    programs = [program_of([(chance.choice(kinds), chance.choice("xy")) for _ in range(3)]) for _ in "AB"]

    def state_properties(lab):
        r = lab.redis()
        for key in "xy":
            for value in (None, b"1", b"2"):
                lab.at_end(f"{key} is not {value}", lambda key=key, value=value: r.get(key) != value)
        lab.always("no effect twice", lambda: lab.mail.count() <= 1)

    class Outside:
        _shareable = True

        def __init__(self, lab):
            self.effect, self.sleep = lab.mail.send, time.sleep

    def as_workers(lab):
        for name, program in zip("AB", programs, strict=True):
            lab.worker(name, program, lab.redis(), Outside(lab))
        state_properties(lab)

    def both(r, r2, world):
        thread = threading.Thread(target=lambda: _quietly(programs[1], r2, world))
        thread.start()
        _quietly(programs[0], r, world)

    def as_threads(lab):
        lab.worker("A", both, lab.redis(), lab.redis(), Outside(lab))
        state_properties(lab)

    assert outcomes(as_threads) == outcomes(as_workers)


def _quietly(program, r, world):
    with contextlib.suppress(Exception):
        program(r, world)


# ---- deadlines that live in data


def visible_later(declared):
    def work(r):
        while True:
            if r.zrangebyscore("queue", "-inf", time.time()):
                r.set("taken", 1)
                return
            time.sleep(1)

    def scenario(lab):
        r = lab.redis()
        r.zadd("queue", {"job": time.time() + 30})
        lab.worker("A", work, lab.redis(), forever=True)
        if declared:
            lab.deadlines(lambda: [score for _, score in r.zrange("queue", 0, -1, withscores=True)])
        lab.at_end("taken", lambda: r.get("taken") is not None)

    return scenario


def test_a_poller_that_reads_the_clock_is_left_alone_until_a_declared_deadline():
    verdict = explore(visible_later(declared=True))
    assert verdict.outcome == "holds"
    assert verdict.states < 40  # thirty polls are not thirty states
    assert explore(visible_later(declared=False)).outcome == "violated"  # nobody told the clock to go there


def test_deadlines_that_are_no_times_are_refused():
    def scenario(lab):
        lab.worker("A", lambda r: time.sleep(1), lab.redis())
        lab.deadlines(lambda: ["soon"])
        lab.always("true", lambda: True)

    from labkit import PropertyError

    with pytest.raises(PropertyError, match="times in seconds"):
        explore(scenario)
