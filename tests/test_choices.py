"""The choices besides steps, clock and crash: lost replies and signals; and what waits: WATCH, blocking, polling."""

import gc
import signal
import time

import pytest
import redis

from labkit import explore, replay, run, sample
from tests.programs import blocking_lock


def one(work, **options):
    def scenario(lab):
        jobs = lab.redis()
        lab.worker("A", work, lab.redis(**options), lab.mail)
        lab.at_end("counted once", lambda: jobs.get("n") == b"1")

    return scenario


# ---- lost replies


def test_a_lost_reply_takes_effect_and_the_client_sees_a_time_out():
    def work(r, mail):
        try:
            r.incr("n")
        except redis.TimeoutError:
            mail.send("timed out")

    trace = replay(one(work), "lose:A A")
    assert [event.summary for event in trace.events] == [
        "INCRBY n 1 -> the reply is lost",
        "mail.send(timed out) -> done",
    ]
    assert trace.violation is None


def test_a_client_that_retries_counts_twice():
    def work(r, mail):
        r.incr("n")

    assert explore(one(work, retries=1)).outcome == "holds"
    verdict = explore(one(work, retries=1), lost_replies=1)
    assert verdict.outcome == "violated"
    assert [event.text for event in verdict.counterexample.events if event.kind == "command"] == ["INCRBY n 1"] * 2
    assert "at most 1 lost reply" in str(verdict)


def test_without_retries_the_error_reaches_the_worker():
    trace = replay(one(lambda r, mail: r.incr("n")), "lose:A")
    assert trace.events[0].ending.error.startswith("TimeoutError: Timeout reading")


def test_a_service_call_whose_reply_is_lost_happened_all_the_same():
    def scenario(lab):
        def work():
            for _ in range(2):
                try:
                    return lab.mail.send("order-1")
                except TimeoutError:
                    continue

        lab.worker("A", work)
        lab.always("at most one mail", lambda: lab.mail.count() <= 1)

    assert explore(scenario).outcome == "holds"
    assert str(explore(scenario, lost_replies=1).counterexample.schedule) == "lose:A A"


def test_a_service_that_deduplicates_forgives_the_retry():
    def scenario(lab):
        pay = lab.service("payments", deduplicates=True)

        def work():
            for _ in range(2):
                try:
                    return pay.call("order-1", idempotency_key="order-1/pay")
                except TimeoutError:
                    continue

        lab.worker("A", work)
        lab.always("paid at most once", lambda: pay.count() <= 1)

    assert explore(scenario, lost_replies=1).outcome == "holds"


def test_a_plain_pipeline_goes_on_at_the_server_after_a_reply_was_lost():
    def work(r, mail):
        with r.pipeline(transaction=False) as pipe:
            pipe.incr("n")
            pipe.incr("m")
            pipe.execute()

    trace = replay(one(work), "lose:A A")
    assert trace.over
    assert [event.text for event in trace.events] == ["INCRBY n 1", "INCRBY m 1"]
    assert trace.events[-1].ending.error.startswith("TimeoutError")


# ---- signals


def graceful(r, mail):
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    while not stop:
        time.sleep(5)
        if r.lpop("queue"):
            r.incr("n")
    mail.send("stopped")


def signalled(work):
    def scenario(lab):
        lab.redis().rpush("queue", "job")
        lab.worker("A", work, lab.redis(), lab.mail, signals=1, forever=True)
        lab.at_end("stopped when told", lambda: lab.mail.count("stopped") == 1)

    return scenario


def test_a_handler_runs_in_the_worker_while_it_sleeps_and_the_sleep_goes_on():
    trace = replay(signalled(graceful), "signal:A clock A A A A")
    assert [event.kind for event in trace.events] == ["signal", "clock", "sleep", "command", "command", "call"]
    assert trace.events[1].time == 5_000_000


def test_without_a_handler_a_signal_kills_without_clean_up():
    ran = []

    def careless(r, mail):
        try:
            r.get("k")
        finally:
            ran.append("finally")

    trace = replay(signalled(careless), "signal:A")
    assert trace.over
    assert trace.events[0].ending.killed
    assert ran == []


def test_a_handler_that_raises_ends_the_sleep_and_runs_finally():
    def work(r, mail):
        def stop(number, frame):
            raise SystemExit

        signal.signal(signal.SIGTERM, stop)
        try:
            time.sleep(60)
        finally:
            mail.send("stopped")

    trace = replay(signalled(work), "signal:A A")
    assert trace.events[-1].text == "mail.send(stopped)"
    assert trace.events[-1].time == 0


@pytest.mark.parametrize(("handling", "awake"), [(0, 60), (20, 60), (90, 90)])
def test_a_sleep_goes_on_while_a_handler_takes_steps(handling, awake):
    def work(r, mail):
        def handle(number, frame):
            mail.send("told")
            time.sleep(handling)

        signal.signal(signal.SIGTERM, handle)
        time.sleep(60)
        mail.send("awake")

    schedule = {0: "signal:A A A clock A A", 20: "signal:A A clock A clock A A", 90: "signal:A A clock A A A"}
    trace = replay(signalled(work), schedule[handling])
    assert (trace.events[-1].text, trace.events[-1].time) == ("mail.send(awake)", awake * 1_000_000)


def test_a_blocking_command_goes_on_waiting_while_a_handler_takes_steps():
    def work(r, mail):
        signal.signal(signal.SIGTERM, lambda *_: time.sleep(4))
        r.blpop("nothing", timeout=10)
        mail.send("waited")

    trace = replay(signalled(work), "signal:A clock A clock A A")
    assert (trace.events[-1].text, trace.events[-1].time) == ("mail.send(waited)", 10_000_000)


def test_signals_reach_only_declared_workers_and_zero_switches_them_off():
    verdict = explore(signalled(graceful), signals=0)
    assert "signal" not in str(verdict).split(":")[0]
    assert "at most 1 signal" in str(explore(signalled(graceful)))


def test_the_process_keeps_its_own_signal_handlers():
    before = signal.getsignal(signal.SIGTERM)
    run(signalled(graceful))
    assert signal.getsignal(signal.SIGTERM) is before


# ---- WATCH


def increment(r):
    with r.pipeline() as pipe:
        while True:
            try:
                pipe.watch("n")
                value = int(pipe.get("n") or 0)
                pipe.multi()
                pipe.set("n", value + 1)
                pipe.execute()
                return
            except redis.WatchError:
                continue


def counting(work, ttl=None):
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("n", 0, ex=ttl)
        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.at_end("both counted", lambda: jobs.get("n") == b"2")

    return scenario


def test_watch_makes_an_increment_safe():
    assert explore(counting(increment)).outcome == "holds"


def test_a_watched_key_that_is_set_to_what_it_was_aborts_the_transaction():
    """The smallest state that a search forgets when it merges by contents alone."""

    def scenario(lab):
        jobs = lab.redis()
        jobs.set("k", "same")

        def watcher(r):
            with r.pipeline() as pipe:
                pipe.watch("k")
                pipe.get("k")
                pipe.multi()
                pipe.set("done", 1)
                try:
                    pipe.execute()
                except redis.WatchError:
                    r.set("aborted", 1)

        lab.worker("A", watcher, lab.redis())
        lab.worker("B", lambda r: r.set("k", "same"), lab.redis())
        lab.at_end("never aborted", lambda: not jobs.exists("aborted"))

    verdict = explore(scenario)
    assert verdict.outcome == "violated"
    assert [event.reply for event in verdict.counterexample.events if event.text.startswith("MULTI")] == ["nil"]


def test_a_watched_key_that_expires_aborts_the_transaction():
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("n", 0, ex=5)

        def work(r):
            with r.pipeline() as pipe:
                pipe.watch("n")
                pipe.multi()
                pipe.set("m", 1)
                pipe.execute()

        lab.worker("A", work, lab.redis())
        lab.at_end("done", lambda: jobs.exists("m"))

    assert explore(scenario).outcome == "holds"
    assert explore(scenario, pauses=1).outcome == "violated"


def test_a_pipeline_that_is_collected_late_takes_no_step_in_another_worker():
    """redis-py sends UNWATCH from a pipeline's `__del__`, whenever Python happens to collect it."""
    left = []

    def leave_behind(r):
        pipe = r.pipeline()
        pipe.watch("n")
        left.append(pipe)

    run(lambda lab: lab.worker("A", leave_behind, lab.redis()))
    assert left[0].watching

    def collect(r):
        r.get("n")
        left.clear()
        gc.collect()
        r.get("m")

    trace = run(lambda lab: lab.worker("A", collect, lab.redis()))
    assert [event.text for event in trace.events] == ["GET n", "GET m"]


def test_a_lost_reply_ends_the_watches_of_its_connection():
    def work(r):
        with r.pipeline() as pipe:
            try:
                pipe.watch("n")
                pipe.get("n")
                pipe.multi()
                pipe.incr("n")
                pipe.execute()
            except (redis.WatchError, redis.TimeoutError):
                pass

    assert explore(counting(work), lost_replies=2, crashes=1).outcome == "violated"


# ---- blocking commands


def test_a_blocking_pop_waits_for_an_element_and_takes_no_real_time():
    def scenario(lab):
        jobs = lab.redis()
        lab.worker("A", lambda r: r.set("got", r.blpop(["q"])[1]), lab.redis())
        lab.worker("P", lambda r: r.rpush("q", "job"), lab.redis())
        lab.at_end("got it", lambda: jobs.get("got") == b"job")

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert str(run(scenario).schedule) == "P A A"


def test_a_blocking_pop_gives_up_at_its_time_out():
    def work(r, mail):
        if r.brpop(["q"], timeout=7) is None:
            r.incr("n")

    trace = run(one(work))
    assert [event.time for event in trace.events] == [7_000_000] * 3
    assert trace.events[1].reply == "nil"


def test_who_waits_for_ever_is_named_and_counts_as_ended():
    def scenario(lab):
        lab.worker("A", lambda r: r.blmove("q", "mine", 0), lab.redis())
        lab.at_end("true", lambda: True)

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert "A may be left waiting: BLMOVE q mine LEFT RIGHT 0." in repr(verdict)


def test_one_element_wakes_one_of_two_waiting_workers():
    def scenario(lab):
        jobs = lab.redis()
        for name in "AB":
            lab.worker(name, lambda r: r.rpush("done", r.blpop(["q"])[1]), lab.redis())
        lab.worker("P", lambda r: r.rpush("q", "job"), lab.redis())
        lab.at_end("done once", lambda: jobs.llen("done") == 1)

    assert explore(scenario).outcome == "holds"


# ---- polling


def poller(limit=None):
    def scenario(lab):
        jobs = lab.redis()

        def poll(r):
            rounds = 0
            while limit is None or rounds < limit:
                if r.lpop("q"):
                    r.incr("done")
                time.sleep(1)
                rounds += 1

        def late(r):
            time.sleep(30)
            r.rpush("q", "job")

        lab.worker("poller", poll, lab.redis(), forever=limit is None)
        lab.worker("P", late, lab.redis())
        lab.at_end("the job is done", lambda: jobs.get("done") == b"1")

    return scenario


def test_a_worker_that_polls_for_ever_is_decided():
    verdict = explore(poller())
    assert verdict.outcome == "holds"
    assert verdict.states < 100


def test_a_worker_that_polls_without_waiting_is_decided_too():
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("lock", "dead", ex=100)

        def poll(r):
            while r.exists("lock"):
                time.sleep(0)
            r.set("got", "it")

        lab.worker("A", poll, lab.redis(), forever=True)
        lab.at_end("got it", lambda: jobs.exists("got"))

    assert explore(scenario).outcome == "holds"


def test_polling_wakes_for_an_expiry_too():
    def scenario(lab):
        jobs = lab.redis()
        jobs.set("lock", "dead", ex=100)

        def poll(r):
            while not r.set("lock", "mine", nx=True, ex=10):
                time.sleep(3)
            r.set("got", "it")

        lab.worker("A", poll, lab.redis(), forever=True)
        lab.at_end("got it", lambda: jobs.exists("got"))

    assert explore(scenario).outcome == "holds"
    last = explore(scenario).ends
    assert last == 1
    assert run(scenario).events[-1].time == 102_000_000  # the first poll after the expiry: 34 times 3 seconds


def test_cutting_short_a_poller_that_may_give_up_is_undetermined():
    verdict = explore(poller(limit=10))
    assert verdict.outcome == "undetermined"
    assert "poller polled without news, and was left alone after 3 rounds" in str(verdict)


def test_a_poller_that_gives_up_is_never_judged_at_an_end_that_is_none():
    def scenario(lab):
        jobs = lab.redis()

        def limited(r):
            for _ in range(5):
                if r.get("f"):
                    return
                time.sleep(1)
            r.set("gave up", 1)

        lab.worker("A", limited, lab.redis())
        lab.always("never gives up", lambda: not jobs.exists("gave up"))
        lab.at_end("gives up", lambda: jobs.exists("gave up"))

    verdict = explore(scenario)
    assert verdict.outcome == "undetermined"
    assert "pollers left alone after 3 unchanged rounds" in str(verdict)
    assert set(explore(scenario, polls=20).violations) == {"never gives up"}
    assert not run(scenario).over
    assert "raise `polls`" in repr(sample(scenario, 10))


def test_a_consumer_that_blocks_with_a_time_out_for_ever_is_decided():
    def scenario(lab):
        jobs = lab.redis()

        def consume(r):
            while True:
                if r.blpop(["q"], timeout=5):
                    r.incr("done")

        def late(r):
            time.sleep(33)
            r.rpush("q", "job")

        lab.worker("A", consume, lab.redis(), forever=True)
        lab.worker("P", late, lab.redis())
        lab.at_end("done", lambda: jobs.get("done") == b"1")

    verdict = explore(scenario)
    assert verdict.outcome == "holds"
    assert verdict.states < 100


def test_more_polls_decide_it():
    assert explore(poller(limit=10), polls=20).outcome == "violated"
    assert explore(poller(limit=40), polls=50).outcome == "holds"


@pytest.mark.parametrize("polls", [0, -1, None, True])
def test_a_bad_number_of_polls_is_refused(polls):
    from labkit import ScenarioError

    with pytest.raises(ScenarioError, match="polls is"):
        explore(poller(), polls=polls)


def test_redis_pys_blocking_lock_is_affordable():
    assert explore(blocking_lock).outcome == "holds"
    assert explore(blocking_lock, pauses=1).outcome == "violated"


def test_a_round_that_is_left_out_loses_no_reply_and_more_polls_bring_it_back():
    def work(r, mail):
        try:
            while not r.get("news"):
                time.sleep(10)
        except redis.TimeoutError:
            mail.send("lost")

    def scenario(lab):
        observer = lab.redis()
        observer.set("y", 1, ex=45)
        lab.worker("A", work, lab.redis(), lab.mail, forever=True)
        lab.always("no reply is lost once y is gone", lambda: lab.mail.count() == 0 or observer.exists("y"))

    assert "left alone after 3 unchanged rounds: holds" in str(explore(scenario, lost_replies=1, polls=3))
    assert explore(scenario, lost_replies=1, polls=5).outcome == "violated"
