"""The parts of a worker, each by itself: its log, its settlements, its heartbeat, its retries, its numbers."""

import json
import logging
import os
import re
import signal
import threading
from types import SimpleNamespace

import pytest

import labkit.workers.heartbeat
import labkit.workers.worker
from labkit.queues import Message, PopQueue, ReliableQueue, StreamQueue, VisibilityQueue
from labkit.workers import (
    Busy,
    Consumer,
    Deployment,
    Heartbeat,
    HeartbeatLost,
    Job,
    Permanent,
    RetryPolicy,
    Timings,
    Worker,
    log_event,
    percentile,
)
from labkit.workers.heartbeat import _extend
from tests.test_renewal import PATIENCE, Ticks

IDS = {"job_id", "event_id", "order_id", "worker_id", "deployment_id", "attempt"}


class Queue:
    """A queue in memory that notes what it is told, and may be told to refuse."""

    def __init__(self, *bodies, refuse=None, answer=True):
        self.messages = [Message(body, f"receipt-{n}", f"message-{n}", 1) for n, body in enumerate(bodies, 1)]
        self.told, self.refuse, self.answer = [], refuse, answer

    def receive(self, max_messages=1, wait=0):
        taken, self.messages = self.messages[:max_messages], self.messages[max_messages:]
        return taken

    def delete(self, receipt_handle):
        return self._note("delete", receipt_handle)

    def change_visibility(self, receipt_handle, seconds):
        return self._note("change_visibility", receipt_handle, seconds)

    def send(self, body):
        self._note("send", body)

    def _note(self, *call):
        self.told.append(call)
        if self.refuse is not None:
            raise self.refuse
        return self.answer


def nothing(job):
    """A job that is done at once."""


def raising(error):
    def handle(job):
        raise error

    return handle


def logged(queue, handler=nothing, **options):
    """What a worker logs until the queue is empty."""
    log = []
    options = {"worker_id": "A", "deployment_id": "v2", "drains": False, "emit": log.append, **options}
    Worker(queue, handler, **options).run(stop_when_empty=True)
    return log


def names(log):
    return [event["event"] for event in log]


# ---- the log


def test_every_event_of_a_job_has_the_ids_that_follow_it_from_producer_to_consumer():
    sent = {"job_id": "j-1", "event_id": "e-1", "order_id": 123, "total": 5}
    log = logged(Queue(sent), lambda job: job.log("effect.applied", effect="mail", worker_id="forged"))
    assert names(log) == ["job.received", "job.started", "effect.applied", "job.acked", "worker.stopped"]
    ids = {"job_id": "j-1", "event_id": "e-1", "order_id": 123, "worker_id": "A", "deployment_id": "v2", "attempt": 1}
    assert [{name: event[name] for name in IDS} for event in log[:-1]] == [ids] * 4
    assert log[2]["effect"] == "mail"
    assert json.loads(json.dumps(log)) == log


@pytest.mark.parametrize("body", [{"total": 5}, ["order", 1], "order-1", None])
def test_a_body_without_ids_is_told_apart_by_the_message(body):
    event = logged(Queue(body))[0]
    assert (event["job_id"], event["event_id"], event["order_id"]) == ("message-1", None, None)


def test_events_are_logged_as_json_and_as_fields_unless_a_worker_is_told_otherwise(caplog):
    caplog.set_level(logging.INFO, "labkit.workers")
    Worker(Queue("a"), nothing, worker_id="A", drains=False).run(stop_when_empty=True)
    assert [json.loads(record.message) for record in caplog.records] == [record.fields for record in caplog.records]
    assert names(record.fields for record in caplog.records)[-1] == "worker.stopped"


def test_what_json_cannot_say_is_logged_as_text(caplog):
    caplog.set_level(logging.INFO, "labkit.workers")
    log_event({"event": "effect.applied", "at": range(2)})
    assert json.loads(caplog.messages[0])["at"] == "range(0, 2)"


# ---- settlements


def test_a_message_that_was_received_again_is_logged_as_a_stale_ack():
    log = logged(Queue("a", answer=False))
    assert log[2]["event"] == "job.acked"
    assert log[2]["result"] == "stale"


def test_a_queue_that_fails_to_ack_does_not_end_the_worker():
    queue = Queue("a", "b", refuse=ConnectionError("gone"))
    log = logged(queue)
    acks = [event for event in log if event["event"] == "job.acked"]
    assert [(event["result"], event["error"]) for event in acks] == [("error", "ConnectionError: gone")] * 2


@pytest.mark.parametrize(
    ("error", "event", "told"),
    [
        (Busy("locked"), "job.released", [("change_visibility", "receipt-1", 1)]),
        (OSError("no network"), "job.released", [("change_visibility", "receipt-1", 1)]),
        (Permanent("no such order"), "job.dead_lettered", [("delete", "receipt-1")]),
        (HeartbeatLost("taken"), None, []),
    ],
    ids=repr,
)
def test_how_a_job_ends_says_what_becomes_of_its_message(error, event, told):
    queue, dead = Queue("a"), Queue()
    log = logged(queue, raising(error), dead_letters=dead)
    assert log[-2 if event is None else -3]["error"] == f"{type(error).__name__}: {error}"
    assert queue.told == told
    assert dead.told == ([("send", "a")] if event == "job.dead_lettered" else [])
    assert (event is None) or (log[-2]["event"], log[-2]["result"]) == (event, "ok")


@pytest.mark.parametrize("error", [Busy("locked"), OSError("no network"), Permanent("no such order")], ids=repr)
def test_with_ack_before_the_work_a_job_that_fails_is_gone_whatever_its_error(error):
    queue = Queue("a")
    log = logged(queue, raising(error), ack="before")
    assert names(log)[-2] == ("job.busy" if isinstance(error, Busy) else "job.failed")
    assert queue.told == [("delete", "receipt-1")]


def test_without_dead_letters_a_job_without_further_attempts_is_left_to_its_queue():
    queue = Queue("a")
    log = logged(queue, raising(Permanent()))
    assert names(log)[-3:-1] == ["job.failed", "job.given_up"]
    assert queue.told == []


def test_a_failed_job_that_its_queue_does_not_take_back_is_logged_as_unsettled():
    class TakesNothingBack(Queue):
        change_visibility = property()  # there is none

    queue = TakesNothingBack("a")
    assert names(logged(queue, raising(OSError())))[-3:-1] == ["job.failed", "job.unsettled"]
    assert queue.told == []


def test_what_cannot_be_given_back_is_worked_on_while_draining():
    class Batches:
        """A queue that takes nothing back."""

        def __init__(self):
            self.messages, self.deleted = Queue("a", "b").messages, []

        def receive(self, max_messages, wait):
            taken, self.messages = self.messages, []
            return taken

        def delete(self, receipt_handle):
            self.deleted.append(receipt_handle)
            return True

    queue, log = Batches(), []
    worker = Worker(queue, lambda job: worker.drain(), worker_id="A", prefetch=2, drains=False, emit=log.append)
    worker.run()
    assert queue.deleted == ["receipt-1", "receipt-2"]
    assert names(log)[-1] == "worker.drained"


def test_max_jobs_bounds_what_is_received():
    queue = Queue(*"abcde")
    Worker(queue, nothing, worker_id="A", prefetch=2, drains=False).run(max_jobs=3)
    assert [message.body for message in queue.messages] == ["d", "e"]


def test_sigterm_drains_and_its_handler_is_put_back():
    before = signal.getsignal(signal.SIGTERM)
    queue, log = Queue("a", "b", "c"), []
    Worker(queue, lambda job: os.kill(os.getpid(), signal.SIGTERM), worker_id="A", prefetch=2, emit=log.append).run()
    assert queue.told == [("delete", "receipt-1"), ("change_visibility", "receipt-2", 0)]
    assert [message.body for message in queue.messages] == ["c"]
    assert names(log)[-2:] == ["job.released", "worker.drained"]
    assert signal.getsignal(signal.SIGTERM) is before


# ---- the heartbeat, with real threads


@pytest.fixture
def beating():
    """Starts heartbeats whose intervals end when the test says so."""

    def start(queue, failed=lambda message, error: None, kind=Heartbeat):
        heartbeat = kind(queue, queue.receive(10), 30, failed)
        heartbeat.stopped = Ticks()
        return heartbeat

    return start


def test_every_third_of_the_timeout_all_messages_in_hand_are_hidden_anew(beating):
    queue = Queue("a", "b")
    with beating(queue) as heartbeat:
        assert heartbeat.stopped.next_interval() == 10
        heartbeat.stopped.tick()
        assert heartbeat.stopped.next_interval() == 10  # so the beat between is over
        heartbeat.let_go(heartbeat.held[0])
        heartbeat.stopped.tick()
        heartbeat.stopped.next_interval()
    beats = [("change_visibility", "receipt-1", 30), ("change_visibility", "receipt-2", 30)]
    assert queue.told == [*beats, beats[1]]
    assert not heartbeat.thread.is_alive()
    assert heartbeat.thread.daemon  # a process that ends does not wait for it


@pytest.mark.parametrize("queue", [Queue("a", "b", refuse=ConnectionError("gone")), Queue("a", "b", answer=False)])
def test_the_worker_and_the_job_are_told_of_a_failure_and_nothing_is_extended_any_more(beating, queue):
    told = []
    with beating(queue, lambda *each: told.append(each)) as heartbeat:
        first, second = heartbeat.held
        heartbeat.check(first)
        heartbeat.stopped.next_interval()
        heartbeat.stopped.tick()
        heartbeat.stopped.next_interval()
        for message in (first, second):
            with pytest.raises(
                HeartbeatLost, match=r"message 'message-\d' was not kept hidden: (gone|it was received)"
            ):
                Job(message, "A", heartbeat=heartbeat).check()
        heartbeat.stopped.tick()
        heartbeat.stopped.next_interval()
    assert [message for message, _ in told] == [first, second]
    assert len(queue.told) == 2


def test_a_job_whose_beat_hangs_is_told_when_its_message_is_no_longer_hidden(beating, monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(labkit.workers.heartbeat, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    asked, answered = threading.Event(), threading.Event()

    class Hangs(Queue):
        def change_visibility(self, receipt_handle, seconds):
            asked.set()
            return answered.wait(PATIENCE)

    with beating(Hangs("a")) as heartbeat:
        (message,) = heartbeat.held
        heartbeat.stopped.tick()
        assert asked.wait(PATIENCE)
        now.seconds += 29
        heartbeat.check(message)
        now.seconds += 1
        with pytest.raises(HeartbeatLost, match="not kept hidden: not for its whole timeout, 30 seconds"):
            heartbeat.check(message)
        answered.set()
        heartbeat.stopped.next_interval()
        heartbeat.stopped.next_interval()  # so the beat between is over
        now.seconds += 1
        with pytest.raises(HeartbeatLost, match="not for its whole timeout"):  # counted from before the request
            heartbeat.check(message)


def test_a_check_outside_of_the_block_never_passes(beating):
    heartbeat = beating(Queue("a"))
    (message,) = heartbeat.held
    for _ in range(2):
        with pytest.raises(HeartbeatLost, match="message 'message-1' was not kept hidden: no heartbeat"):
            heartbeat.check(message)
        if not heartbeat.stopped.is_set():
            with heartbeat:
                heartbeat.check(message)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_heartbeat_whose_thread_has_died_is_noticed(beating):
    def fail(message, error):
        raise SystemExit  # so the thread ends without a word

    with beating(Queue("a", "b", refuse=OSError()), fail) as heartbeat:
        second = heartbeat.held[1]
        heartbeat.stopped.tick()
        heartbeat.thread.join(PATIENCE)
        with pytest.raises(HeartbeatLost, match="no heartbeat"):
            heartbeat.check(second)


def test_a_worker_logs_a_failed_heartbeat_and_does_not_begin_what_it_has_lost(monkeypatch):
    class Instant(Heartbeat):
        """One beat, as soon as the messages are there."""

        def __enter__(self):
            self.thread = SimpleNamespace(is_alive=lambda: True)
            self.held = [message for message in self.held if _extend(self, message)]
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(labkit.workers.worker, "Heartbeat", Instant)
    queue, done = Queue("a", answer=False), []
    log = logged(queue, done.append, keep_hidden=30)
    assert names(log) == ["job.received", "heartbeat.failed", "job.failed", "worker.stopped"]
    assert log[1]["error"] == "HeartbeatLost: it was received again since"
    assert not done
    assert queue.told == [("change_visibility", "receipt-1", 30)]


# ---- retries


def test_waits_grow_up_to_a_limit_and_end_after_the_last_attempt():
    policy = RetryPolicy(first_wait=1, factor=2, longest_wait=5, max_attempts=6)
    assert [policy.wait(OSError(), attempt) for attempt in range(1, 7)] == [1, 2, 4, 5, 5, None]
    assert policy.total_wait() == 17
    assert policy.wait(Busy(), 10_000) == 5


def test_the_kind_of_error_says_whether_another_attempt_makes_sense():
    policy = RetryPolicy(retryable=(OSError, Permanent), permanent=(Permanent, FileNotFoundError))
    kinds = [ConnectionError(), FileNotFoundError(), Permanent(), ValueError(), Busy()]
    assert [policy.wait(error, 1) is not None for error in kinds] == [True, False, False, False, True]


def test_five_attempts_with_waits_of_1_2_4_and_8_seconds_do_not_outlast_a_lock_of_30():
    assert RetryPolicy(max_attempts=5).total_wait() == 15
    assert not RetryPolicy(max_attempts=5).outlasts(30)
    assert RetryPolicy(max_attempts=6).outlasts(30)
    assert not RetryPolicy(max_attempts=6, jitter=0.1).outlasts(30)  # 27.9 seconds, with bad luck
    assert not RetryPolicy(max_attempts=50, jitter=1).outlasts(0)


@pytest.mark.parametrize(
    ("durations", "share", "complaint"),
    [
        ([], 0.5, "durations is empty; at least one job must have been measured"),
        ([1, 2], 0, "share is 0; it must be above 0"),
        ([1, 2], 95, "share is 95; it must be a number, from 0 to 1"),
    ],
)
def test_a_percentile_of_nothing_or_of_no_share_is_refused(durations, share, complaint):
    assert [percentile([3, 1, 2], share) for share in (0.01, 0.5, 1)] == [1, 2, 3]
    with pytest.raises(ValueError, match="^" + complaint):
        percentile(durations, share)


# ---- numbers that belong together

SOUND = {
    "job_p95": 20,
    "visibility_timeout": 30,
    "lock_ttl": 30,
    "grace_period": 30,
    "retry_budget": 31,
    "dedup_retention": 1_209_600,
    "max_redelivery_age": 1_209_600,
    "receive_wait": 10,
}


def test_numbers_that_agree_are_no_problem():
    assert Timings(**SOUND).problems() == []


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"visibility_timeout": 19}, ["jobs take 20 s, messages are hidden for 19 s: they are delivered again"]),
        ({"visibility_timeout": 20}, ["jobs take 20 s, messages are hidden for 20 s: slower ones are delivered again"]),
        ({"visibility_timeout": 24}, ["slower ones are delivered again"]),
        ({"lock_ttl": 19}, ["the lock lasts 19 s: another worker takes it before they end"]),
        ({"grace_period": 29}, ["to drain takes 30 s, the grace period 29 s: jobs are killed midway"]),
        ({"retry_budget": 15}, ["retries end after 15 s, the lock lasts 30 s: they give up before a dead worker's is"]),
        ({"dedup_retention": 86_400}, ["idempotency keys last 86,400 s, messages come back for 1,209,600 s"]),
        ({"job_p95": 45}, ["delivered again before they end", "another worker takes it", "killed midway"]),
        ({"job_p95": 45, "extended": True}, ["killed midway"]),
    ],
    ids=str,
)
def test_numbers_that_do_not_agree_are_named(changes, problems):
    found = Timings(**{**SOUND, **changes}).problems()
    assert len(found) == len(problems)
    assert all(problem in sentence for problem, sentence in zip(problems, found, strict=True))


# ---- bad input


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ack": "later"}, 'ack is \'later\'; it must be "after" or "before"'),
        ({"handler": None}, "handler is None; it must be a function that takes a Job"),
        ({"worker_id": ""}, "worker_id is ''; it must be a name"),
        ({"prefetch": 0}, "prefetch is 0; it must be a whole number, 1 or more"),
        ({"prefetch": 1.5}, "prefetch is 1.5; it must be a whole number"),
        ({"wait": -1}, "wait is -1; it must be a number, 0 or more"),
        ({"wait": float("nan")}, "wait is nan; it must be a number"),
        ({"keep_hidden": 0}, "keep_hidden is 0; it must be a number, 0.001 or more"),
        ({"keep_hidden": "30"}, "keep_hidden is '30'; it must be a number"),
        ({"retry": 3}, "retry is 3; it must be a RetryPolicy"),
        ({"dead_letters": 5}, "dead_letters is 5; it must be a queue, which has `send`"),
        ({"dead_letters": Queue(), "ack": "before"}, "dead_letters are for ack=.after.; with ack=.before. a job"),
        ({"queue": PopQueue(None, "q"), "prefetch": 2}, "prefetch is 2; this queue gives one message at a time"),
        ({"queue": StreamQueue(None, "q", "A"), "prefetch": 101}, "prefetch is 101; this queue gives at most 100 "),
        ({"queue": VisibilityQueue(None, "q"), "prefetch": 11}, "prefetch is 11; this queue gives at most 10 messages"),
        (
            {"queue": VisibilityQueue(None, "q"), "wait": 21},
            "wait is 21; a receive of this queue waits for at most 20",
        ),
        ({"queue": None, "keep_hidden": 30}, "keep_hidden needs a queue with change_visibility"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
def test_a_worker_refuses_what_makes_no_sense(options, complaint):
    with pytest.raises(ValueError, match="^" + complaint):
        Worker(**{"queue": Queue(), "handler": nothing, "worker_id": "A", **options})


EACH = [PopQueue(None, "q"), ReliableQueue(None, "q", "A"), StreamQueue(None, "q", "A"), VisibilityQueue(None, "q")]


@pytest.mark.parametrize("queue", EACH, ids=lambda queue: type(queue).__name__)
def test_the_table_of_queues_says_how_many_messages_each_gives_and_which_takes_them_back(queue):
    rows = {row[0]: row[1:] for line in labkit.workers.__doc__.splitlines() if (row := re.split("  +", line.strip()))}
    prefetch, takes_back, _ = rows[type(queue).__name__]
    most = int(prefetch.split()[-1])
    Worker(queue, nothing, worker_id="A", prefetch=most)
    with pytest.raises(ValueError, match=r"^prefetch is"):
        Worker(queue, nothing, worker_id="A", prefetch=most + 1)
    assert takes_back == ("yes" if hasattr(queue, "change_visibility") else "no")


@pytest.mark.parametrize("bad", [{"ack": "late"}, {"handler": None}, {"retry": 3}, {"worker_id": ""}], ids=str)
def test_a_consumer_by_itself_refuses_what_makes_no_sense_too(bad):
    with pytest.raises(ValueError, match=f"^{next(iter(bad))} is"):
        Consumer(**{"queue": Queue(), "handler": nothing, "worker_id": "A", **bad})


def test_a_worker_in_another_thread_is_told_to_drain_by_a_call_and_not_by_a_signal():
    said, queue = [], Queue("a", "b", "c")

    def refused():
        with pytest.raises(RuntimeError, match=r"^in another thread, pass drains=False and call drain\(\) yourself"):
            Worker(queue, nothing, worker_id="A").run(stop_when_empty=True)
        worker = Worker(queue, lambda job: worker.drain(), worker_id="A", drains=False)
        worker.run()
        said.append(worker.state)

    thread = threading.Thread(target=refused)
    thread.start()
    thread.join(PATIENCE)
    assert said == ["stopped"]
    assert [message.body for message in queue.messages] == ["b", "c"]


def test_a_worker_refuses_to_ask_without_end_or_to_run_twice():
    worker = Worker(Queue(), nothing, worker_id="A", wait=0, drains=False)
    with pytest.raises(ValueError, match="wait is 0, so an empty queue would be asked without end"):
        worker.run()
    with pytest.raises(ValueError, match="max_jobs is -1; it must be a whole number, 0 or more"):
        worker.run(max_jobs=-1, stop_when_empty=True)
    worker.run(stop_when_empty=True)
    with pytest.raises(RuntimeError, match="worker A has stopped; a worker runs once"):
        worker.run(stop_when_empty=True)


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (RetryPolicy, {"first_wait": -1}, "first_wait is -1"),
        (RetryPolicy, {"first_wait": 9, "longest_wait": 5}, "longest_wait is 5; it must be a number, 9 or more"),
        (RetryPolicy, {"factor": 0.5}, "factor is 0.5; it must be a number, from 1 to 100"),
        (RetryPolicy, {"max_attempts": 0}, "max_attempts is 0; it must be a whole number, 1 or more"),
        (RetryPolicy, {"max_attempts": True}, "max_attempts is True"),
        (RetryPolicy, {"jitter": 2}, "jitter is 2; it must be a number, from 0 to 1"),
        (RetryPolicy, {"retryable": [OSError]}, "retryable is .*; it must be a tuple of exception types"),
        (RetryPolicy, {"retryable": "OSError"}, "retryable is 'OSError'; it must be a tuple of exception types"),
        (RetryPolicy, {"permanent": OSError}, "permanent is .*; it must be a tuple of exception types"),
        (RetryPolicy, {"permanent": (OSError, int)}, "permanent is .*; it must be a tuple of exception types"),
        (Timings, {**SOUND, "job_p95": None}, "job_p95 is None; it must be a number"),
        (Timings, {**SOUND, "lock_ttl": float("inf")}, "lock_ttl is inf; it must be a number"),
        (Deployment, {"deployment_id": "v2", "grace_period": -1}, "grace_period is -1"),
    ],
    ids=str,
)
def test_numbers_that_make_no_sense_are_refused(kind, options, complaint):
    with pytest.raises(ValueError, match="^" + complaint):
        kind(**options)
