"""Workers in the lab: what draining, acks, prefetching, heartbeats and retries guarantee, and what they do not."""

import json
import time

import pytest
from redis.exceptions import LockError

import labkit.workers.heartbeat
import labkit.workers.worker
from labkit import explore, replay, run
from labkit.locks import AtomicLock
from labkit.queues import PopQueue, ReliableQueue, StreamQueue, VisibilityQueue
from labkit.workers import Busy, Consumer, Heartbeat, Permanent, RetryPolicy, Worker
from tests.docstrings import shown

ONCE = "each order is mailed at most once"
MAILED = "each order is mailed"
EMPTY = "nothing is left in the queue"
DRAINS = "no job begins while its worker drains"
TRIED = "a job that failed once is no dead letter"
KEPT = "an order that is not mailed is still in the queue"

POLLS = {"wait": 20, "forever": True}
ONE_JOB = (("max_jobs", 1),)
ONE_RECEIVE = (*ONE_JOB, ("stop_when_empty", True))
SIGTERM = {"signals": 1}


def say(event):
    print(json.dumps(event))


# ---- what the workers do: a handler gets the job, its worker, and the scenario's tools


def mails(job, worker, mail, seconds=0, checks=False):
    """A job that takes so many seconds, and then sends a mail."""
    if worker.state != "polling":
        mail.send("late")
    time.sleep(seconds)
    if checks:
        job.check()
    mail.send(job.body["order_id"], idempotency_key=job.body["order_id"])


def process(kind, queue, handle, tools, limits, options):
    """What a worker process runs."""
    worker = kind(queue, lambda job: handle(job, worker, *tools), emit=say, **dict(options))
    worker.run(**dict(limits))


class Later(Worker):
    """A worker that comes up ten seconds after the other."""

    def run(self, **limits):
        time.sleep(10)
        super().run(**limits)


def add(lab, name, queue, handle, *tools, kind=Worker, limits=(), signals=0, forever=False, spared=False, **options):
    options = ("worker_id", name), ("deployment_id", {"A": "old", "B": "new"}[name]), *options.items()
    plan = {"signals": signals, "forever": forever, "spared": spared}
    lab.worker(name, process, kind, queue, handle, tools, limits, options, **plan)


def must_mail(lab, mail, orders):
    lab.always(ONCE, lambda: all(mail.count(order) <= 1 for order in orders))
    lab.always(DRAINS, lambda: mail.count("late") == 0)
    lab.at_end(MAILED, lambda: all(mail.count(order) >= 1 for order in orders))


def working(a=(), b=(), orders=("1",), seconds=0, checks=False, keyed=False, timeout=30, queue=VisibilityQueue, **both):
    """A scenario: workers A and B on a queue with these orders.

    Parameters: what sets A apart, and B; how long a job takes; whether it calls `check`; whether the mail service
    heeds idempotency keys; the visibility timeout; the workers' kind of queue; what they have in common.
    """

    def scenario(lab):
        store = VisibilityQueue.create(lab.redis(), "jobs", visibility_timeout=timeout)
        for order in orders:
            store.send({"order_id": order})
        mail = lab.service("keyed-mail", deduplicates=True) if keyed else lab.mail
        for name, own in (("A", a), ("B", b)):
            own = {**both, **dict(own)}
            job = own.pop("seconds", seconds), own.pop("checks", checks)
            add(lab, name, queue(lab.redis(), "jobs"), mails, mail, *job, **own)
        lab.deadlines(store.deadlines)
        must_mail(lab, mail, orders)
        lab.at_end(EMPTY, lambda: not store.deadlines())

    return scenario


def broken(scenario, **budgets):
    return set(explore(scenario, **budgets).violations)


def events(trace):
    """What the workers logged, each with its time in seconds."""
    for line in trace.log().splitlines():
        seconds, _, rest = line.strip().partition(" s ")
        yield float(seconds.replace(",", "")), json.loads(rest.partition(": ")[2])


# ---- SIGTERM


@pytest.mark.parametrize("prefetch", [1, 2])
def test_a_worker_that_drains_settles_its_job_and_begins_no_other_whenever_sigterm_comes(prefetch):
    verdict = explore(working(a=SIGTERM, orders="12", seconds=5, prefetch=prefetch, **POLLS))
    verdict.assert_holds()
    assert "at most 1 signal" in str(verdict)


@pytest.mark.parametrize("prefetch", [1, 2])
def test_a_worker_that_works_off_what_it_has_begins_jobs_while_draining(prefetch):
    class WorksItOff(Worker):
        """A mutant."""

        can_give_back = False

    old = {**SIGTERM, "kind": WorksItOff}
    assert broken(working(a=old, orders="12", seconds=5, prefetch=prefetch, **POLLS)) == {DRAINS}


def test_a_worker_that_sigterm_kills_leaves_its_job_to_be_done_again_after_the_visibility_timeout():
    scenario = working(a={**SIGTERM, "drains": False}, seconds=5, **POLLS)
    verdict = explore(scenario)
    assert set(verdict.violations) == {ONCE}
    received = [
        (at, event["attempt"]) for at, event in events(verdict.counterexample) if event["event"] == "job.received"
    ]
    assert received == [(0, 1), (30, 2)]
    explore(working(a={**SIGTERM, "drains": False}, seconds=5, keyed=True, **POLLS)).assert_holds()


def test_a_deploy_that_kills_after_the_grace_period_needs_an_effect_that_bears_repetition():
    deploy = {"a": SIGTERM, "b": {"spared": True}, "seconds": 5, **POLLS}
    assert broken(working(**deploy), crashes=1) == {ONCE}
    explore(working(keyed=True, **deploy), crashes=1).assert_holds()


def test_what_was_prefetched_and_is_not_given_back_waits_for_its_timeout():
    new = {"forever": False, "limits": (("stop_when_empty", True),)}  # it waits for 20 seconds
    deploy = {"a": SIGTERM, "b": new, "orders": "12", "seconds": 5, "prefetch": 2, **POLLS}
    explore(working(**deploy)).assert_holds()
    assert broken(working(gives_back=False, **deploy)) == {MAILED, EMPTY}


QUEUES = {
    "pop": lambda r: PopQueue(r, "jobs"),
    "reliable": lambda r: ReliableQueue(r, "jobs", "A", heartbeat_ttl=100),
    "stream": lambda r: StreamQueue(r, "jobs", "A"),
    "visibility": lambda r: VisibilityQueue(r, "jobs"),
}
LEFT = {
    "pop": lambda r: r.llen("jobs"),
    "reliable": lambda r: r.llen("jobs") + r.llen("jobs:processing:A"),
    "stream": lambda r: r.xlen("jobs"),
    "visibility": lambda r: r.zcard("queue:jobs:visible_at"),
}


def sent_while_polling(make, kind=Worker):
    """A polls an empty queue and gets SIGTERM; an order is sent meanwhile."""

    def scenario(lab):
        r = lab.redis()
        if make == "stream":
            QUEUES[make](r).create()
        if make == "visibility":
            VisibilityQueue.create(r, "jobs")
        add(lab, "A", QUEUES[make](lab.redis()), mails, lab.mail, kind=kind, wait=20, limits=ONE_RECEIVE, signals=1)
        lab.worker("P", lambda queue: queue.send({"order_id": "1"}), QUEUES[make](lab.redis()))
        lab.always(ONCE, lambda: lab.mail.count("1") <= 1)
        lab.at_end(KEPT, lambda: lab.mail.count("1") + LEFT[make](r) >= 1)

    return scenario


@pytest.mark.parametrize("make", QUEUES)
def test_the_receive_that_is_under_way_at_sigterm_loses_nothing(make):
    explore(sent_while_polling(make)).assert_holds()


def test_a_worker_that_leaves_at_once_at_sigterm_loses_what_it_has_just_popped():
    class Leaves(Worker):
        """A mutant."""

        def drain(self, *_):
            raise SystemExit

    assert broken(sent_while_polling("pop", Leaves)) == {KEPT}
    assert not broken(sent_while_polling("reliable", Leaves))


# ---- a job of 45 seconds, a visibility timeout of 30

SLOW = {"seconds": 45, "limits": ONE_JOB, **POLLS}


def test_a_job_that_outlasts_the_visibility_timeout_is_done_twice_with_no_fault_at_all():
    verdict = explore(working(**SLOW))
    assert set(verdict.violations) == {ONCE}
    started = [(at, event) for at, event in events(verdict.counterexample) if event["event"] == "job.started"]
    assert [at for at, _ in started] == [0, 30]  # two lines of log tell the story
    first, second = (event for _, event in started)
    assert first["job_id"] == second["job_id"]
    assert first["order_id"] == second["order_id"] == "1"
    assert {first["worker_id"], second["worker_id"]} == {"A", "B"}
    assert {first["deployment_id"], second["deployment_id"]} == {"old", "new"}
    assert (first["attempt"], second["attempt"]) == (1, 2)


def test_a_heartbeat_keeps_the_message_for_as_long_as_the_job_takes():
    explore(working(keep_hidden=30, **SLOW)).assert_holds()


class HidesAsTheQueueDoes(VisibilityQueue):
    """A mutant: what a receive wishes is not heard, as in a queue that has no such wish."""

    def receive(self, max_messages=1, wait=0):
        return super().receive(max_messages, wait)


def test_a_message_is_hidden_for_as_long_as_its_heartbeat_counts_on_whatever_the_queue_is_set_to():
    explore(working(keep_hidden=90, **SLOW)).assert_holds()
    assert ONCE in broken(working(keep_hidden=90, queue=HidesAsTheQueueDoes, **SLOW))


# A asks once; B comes ten seconds later, and is not paused.
PAUSED = {
    **SLOW,
    "keep_hidden": 30,
    "a": {"wait": 0, "limits": ONE_RECEIVE},
    "b": {"kind": Later, "spared": True, "keep_hidden": None, "seconds": 0},
}


def test_a_heartbeat_is_paused_with_its_worker():
    assert broken(working(**PAUSED), pauses=1, polls=1, max_states=1_500) == {ONCE}


def test_a_job_that_checks_hears_of_a_pause_unless_another_comes_between_the_check_and_the_effect():
    explore(working(checks=True, **PAUSED), pauses=1, polls=1).assert_holds()
    (told,) = shown(Heartbeat)
    assert replay(told.scenario, told.schedule).violation.property == ONCE


def beats(queue, mail, seconds):
    """A job that takes so many seconds under a heartbeat, and asks it before its mail."""
    messages = queue.receive()
    with Heartbeat(queue, messages, 30, lambda *_: None) as heartbeat:
        for message in messages:
            time.sleep(seconds)
            heartbeat.check(message)
            mail.send(message.body["order_id"])
            heartbeat.let_go(message)
            queue.delete(message.receipt_handle)


def comes_later(queue, mail, seconds):
    time.sleep(seconds)
    for message in queue.receive():
        mail.send(message.body["order_id"])


def beating(seconds=5, later=30):
    """A has a job with a heartbeat; B, spared, receives when the message would be visible without one."""

    def scenario(lab):
        queue = VisibilityQueue.create(lab.redis(), "jobs")
        queue.send({"order_id": "1"})
        lab.worker("A", beats, VisibilityQueue(lab.redis(), "jobs"), lab.mail, seconds)
        lab.worker("B", comes_later, VisibilityQueue(lab.redis(), "jobs"), lab.mail, later, spared=True)
        lab.deadlines(queue.deadlines)
        lab.always(ONCE, lambda: lab.mail.count("1") <= 1)

    return scenario


def test_a_job_that_was_paused_until_its_message_was_visible_does_not_get_past_the_check(monkeypatch):
    explore(beating(seconds=45, later=70), pauses=1).assert_holds()
    paused = "A A A clock clock clock B B B B A"  # and its heartbeat with it
    assert replay(beating(), paused + " A").violation is None  # it reads the clock
    monkeypatch.setattr(labkit.workers.heartbeat, "_why_unsafe", lambda beat, handle: beat.lost.get(handle))  # a mutant
    assert replay(beating(), paused + " A").violation.property == ONCE


def test_no_heartbeat_fails_when_its_job_ends_at_the_same_time(monkeypatch):
    def scenario(lab):
        queue = VisibilityQueue.create(lab.redis(), "jobs")
        queue.send({"order_id": "1"})
        alarm = lab.service("alarm")

        def ring(event):
            if event["event"] == "heartbeat.failed":
                alarm.call("rings")

        def alone(queue):
            Worker(queue, lambda job: time.sleep(10), worker_id="A", emit=ring, keep_hidden=30).run(max_jobs=1)

        lab.worker("A", alone, VisibilityQueue(lab.redis(), "jobs"))
        lab.always("no alarm", lambda: alarm.count() == 0)

    explore(scenario, pauses=1).assert_holds()

    class LetsGoTooSoon(Heartbeat):
        """A mutant: the extension under way is not waited for."""

        def let_go(self, message):
            self.held = [other for other in self.held if other is not message]

    monkeypatch.setattr(labkit.workers.worker, "Heartbeat", LetsGoTooSoon)
    assert broken(scenario) == {"no alarm"}


# ---- when to ack


def test_ack_before_the_work_loses_the_job_of_a_worker_that_dies():
    assert broken(working(ack="before", b={"spared": True}, **POLLS), crashes=1) == {MAILED}


def test_ack_after_the_work_does_the_job_of_a_worker_that_dies_again():
    assert broken(working(b={"spared": True}, **POLLS), crashes=1) == {ONCE}


def died(seconds=0, signals=0):
    """A, which has a job of so many seconds, may get so many SIGTERMs and die; B, spared, asks ten seconds later."""
    late = {"kind": Later, "spared": True}
    return working(a={"signals": signals}, b=late, seconds=seconds, limits=ONE_JOB, wait=20)


def counted():
    """A job that is busy once, and then fails for the first time, under a policy of two attempts."""

    def handle(job, worker):
        raise Busy("not now") if job.attempt == 1 else ConnectionError("no luck")

    def scenario(lab):
        queue = VisibilityQueue.create(lab.redis(), "jobs", max_receive_count=100)
        queue.send({"order_id": "1"})
        own = VisibilityQueue(lab.redis(), "jobs")
        options = {"retry": RetryPolicy(max_attempts=2), "dead_letters": own.dead_letters, "wait": 20}
        add(lab, "A", own, handle, limits=(("max_jobs", 2),), **options)
        lab.deadlines(queue.deadlines)
        lab.always(TRIED, lambda: not queue.dead_letters.deadlines())

    return scenario


@pytest.mark.parametrize(("kind", "broken"), [(Worker, ONCE), (Consumer, ONCE), (RetryPolicy, TRIED)])
def test_the_schedule_in_the_docstring_shows_what_it_does_not_guarantee(kind, broken):
    (told,) = shown(kind)
    trace = replay(told.scenario, told.schedule)
    assert trace.violation.property == broken
    assert str(trace.schedule) == told.schedule


# ---- prefetching

BATCH = {"orders": "12", "seconds": 17, **POLLS}


def test_the_second_message_of_a_batch_runs_out_of_time_while_the_first_is_worked_on():
    verdict = explore(working(prefetch=2, **BATCH))
    assert set(verdict.violations) == {ONCE}
    mails = [event for event in verdict.counterexample.events if event.text.startswith("mail.send")]
    assert "send(2" in mails[-1].text


@pytest.mark.parametrize("remedy", [{"prefetch": 1}, {"prefetch": 2, "keep_hidden": 30}], ids=str)
def test_receiving_one_at_a_time_or_a_heartbeat_over_the_whole_batch_prevents_that(remedy):
    explore(working(**remedy, **BATCH)).assert_holds()


# ---- retries


def failing(error, policy, limits=(("max_jobs", 9),), kind=Worker, **queue_options):
    """One worker, whose job always fails with this error."""

    def fail(job, worker, mail):
        mail.send("attempt")
        raise error("no luck")

    def scenario(lab):
        r = lab.redis()
        queue = VisibilityQueue.create(r, "jobs", max_receive_count=100)
        queue.send({"order_id": "1"})
        own = VisibilityQueue(lab.redis(), "jobs")
        options = {"retry": policy, "dead_letters": own.dead_letters, "wait": 20}
        add(lab, "A", own, fail, lab.mail, limits=limits, forever=True, kind=kind, **options)
        lab.deadlines(queue.deadlines)
        lab.always("three attempts at most", lambda: lab.mail.count() <= 3)
        lab.always("it is somewhere", lambda: queue.deadlines() or queue.dead_letters.deadlines())
        lab.at_end("it is a dead letter", lambda: not queue.deadlines() and queue.dead_letters.deadlines())

    return scenario


def attempts(scenario, **options):
    return [event.time / 1e6 for event in run(scenario, **options).events if event.text == "mail.send(attempt)"]


THREE = RetryPolicy(max_attempts=3)


def test_an_error_that_may_pass_is_tried_again_with_growing_waits_and_a_limit():
    explore(failing(ConnectionError, THREE), crashes=0).assert_holds()
    assert attempts(failing(ConnectionError, THREE)) == [0, 1, 3]
    assert "three attempts at most" in broken(failing(ConnectionError, RetryPolicy(max_attempts=4)))


@pytest.mark.parametrize("policy", [THREE, RetryPolicy(retryable=(OSError,))], ids=["Permanent", "not retryable"])
def test_an_error_that_will_not_pass_makes_a_dead_letter_at_once(policy):
    error = Permanent if policy is THREE else ValueError
    explore(failing(error, policy)).assert_holds()
    assert attempts(failing(error, policy)) == [0]


def test_a_worker_that_dies_between_the_dead_letter_and_the_ack_leaves_two_of_it_and_not_none():
    assert "it is somewhere" not in broken(failing(Permanent, THREE), crashes=1)

    class DeletesFirst(Worker):
        """A mutant."""

        def _bury(self, receipt_handle, body):
            self.queue.delete(receipt_handle)
            self.dead_letters.send(body)

    assert "it is somewhere" in broken(failing(Permanent, THREE, kind=DeletesFirst))


def test_busy_comes_back_however_often_it_happens():
    scenario = failing(Busy, RetryPolicy(max_attempts=1), limits=(("max_jobs", 4),))
    assert attempts(scenario) == [0, 1, 3, 7]
    assert broken(scenario) == {"three attempts at most", "it is a dead letter"}


def test_jitter_spreads_retries_and_the_lab_repeats_it():
    scenario = failing(ConnectionError, RetryPolicy(max_attempts=3, jitter=1))
    first, second = attempts(scenario, seed=1), attempts(scenario, seed=2)
    assert first != second
    assert attempts(scenario, seed=1) == first
    assert all(one[1] < 1 and one[2] - one[1] < 2 for one in (first, second))


# ---- busy is not done


def dead_holder(answer, **options):
    """A may die with the lock on an order, 30 s; the message is back after 10 s, and B finds the lock taken."""

    def locked(job, worker, mail, r):
        lock = AtomicLock(r, "lock:1", timeout=30)
        if not lock.acquire(blocking=False):
            return answer()
        mail.send(job.body["order_id"])
        lock.release()

    def scenario(lab):
        queue = VisibilityQueue.create(lab.redis(), "jobs", visibility_timeout=10, max_receive_count=100)
        queue.send({"order_id": "1"})
        for name, plan in (("A", {}), ("B", {"spared": True})):
            r = lab.redis()
            own = VisibilityQueue(r, "jobs")
            more = {"dead_letters": own.dead_letters, **POLLS, **plan, **options}
            add(lab, name, own, locked, lab.mail, r, limits=(("max_jobs", 6),), **more)
        lab.deadlines(queue.deadlines)
        lab.at_end(MAILED, lambda: lab.mail.count("1") >= 1)

    return scenario


def says_false():
    return False


def says_busy():
    raise Busy("another worker has the lock")


def says_failed():
    raise LockError("another worker has the lock")


def test_a_handler_that_returns_false_when_the_lock_is_taken_loses_the_job_of_a_dead_holder():
    assert broken(dead_holder(says_false), crashes=1) == {MAILED}


def test_a_handler_that_says_busy_does_the_job_once_the_lock_is_free():
    explore(dead_holder(says_busy), crashes=1).assert_holds()


def test_retries_that_end_before_the_lock_does_give_up_the_job_of_a_dead_holder():
    short, long = RetryPolicy(max_attempts=5), RetryPolicy(max_attempts=6)
    assert not short.outlasts(30)
    assert broken(dead_holder(says_failed, retry=short), crashes=1) == {MAILED}
    assert long.outlasts(30)
    explore(dead_holder(says_failed, retry=long), crashes=1).assert_holds()


# ---- on a real server


@pytest.mark.parametrize(
    "scenario",
    [
        working(a={**SIGTERM, "drains": False}, seconds=5, **POLLS),
        working(**SLOW),
        working(prefetch=2, **BATCH),
    ],
    ids=["killed", "slow", "prefetched"],
)
def test_the_counterexample_replays_on_a_real_server(scenario, redis_url):
    trace = explore(scenario).violations[ONCE]
    assert replay(scenario, trace.schedule, redis_url=redis_url) == trace
