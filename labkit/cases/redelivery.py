"""Messages that are given to a second worker while the first still has them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from labkit import Lab
from labkit.cases.case import Case
from labkit.lab import Service

TIMEOUT = 30  # seconds for which a received message is hidden
MOST_BEATS = 6  # after which a job counts as stuck
_RECEIVE = """-- receive
for _, id in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
  if redis.call('exists', KEYS[1] .. ':hidden:' .. id) == 0 then
    local receipt = redis.call('hincrby', KEYS[1] .. ':receipts', id, 1)
    redis.call('set', KEYS[1] .. ':hidden:' .. id, receipt, 'EX', ARGV[1])
    return {id, receipt}
  end
end
"""
_HIDE = """-- hide for longer
local hidden = KEYS[1] .. ':hidden:' .. ARGV[1]
if redis.call('get', hidden) ~= ARGV[2] then return 0 end
return redis.call('expire', hidden, ARGV[3])
"""
_DELETE = """-- delete
local hidden = KEYS[1] .. ':hidden:' .. ARGV[1]
if redis.call('get', hidden) ~= ARGV[2] then return 0 end
redis.call('del', hidden)
return redis.call('lrem', KEYS[1], 1, ARGV[1])
"""
QUEUE = "queue"  # its key; every other key starts with it
RECIPIENTS = ("ann", "bob")
Delivery = tuple[str, int]  # a message, and the receipt for this delivery of it


@dataclass(frozen=True)
class HidingQueue:
    """A list; a message in it that somebody has received is hidden by a key with a time to live.

    Like `labkit.queues.VisibilityQueue`, reduced: no request carries a time, so that states differ in nothing but what
    is left of it.

    Parameters
    ----------
    redis: a client.
    timeout: seconds for which a received message is hidden.
    """

    redis: Any
    timeout: int = TIMEOUT

    def receive(self) -> Delivery | None:
        """The first message that is not hidden, if there is one."""
        found = self.redis.register_script(_RECEIVE)([QUEUE], [self.timeout])
        return None if found is None else (found[0], found[1])

    def hide(self, delivery: Delivery) -> bool:
        """Hide a message anew; whether it was still hidden for this delivery."""
        return bool(self.redis.register_script(_HIDE)([QUEUE], [*delivery, self.timeout]))

    def delete(self, delivery: Delivery) -> bool:
        """Delete a message that is done; whether it was still hidden for this delivery."""
        return bool(self.redis.register_script(_DELETE)([QUEUE], delivery))


@contextmanager
def kept_hidden(queue: HidingQueue, *deliveries: Delivery) -> Iterator[None]:
    """A thread that hides messages anew, a bounded number of times, until the block is left or one has been taken."""
    done = threading.Event()

    def beat() -> None:
        for _ in range(MOST_BEATS):
            if done.wait(TIMEOUT / 2) or not all(queue.hide(delivery) for delivery in deliveries):
                return

    threading.Thread(target=beat, name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def look(queue: HidingQueue, *waits: float) -> Delivery | None:
    """Look for a message after each of these waits, until there is one."""
    for seconds in waits:
        if seconds:
            time.sleep(seconds)
        if found := queue.receive():
            return found
    return None


def queue_of(lab: Lab, timeout: int = TIMEOUT) -> HidingQueue:
    """The queue, as one worker has it."""
    return HidingQueue(lab.redis(decode_responses=True), timeout)


# ---- P01: a task that sends for longer than the visibility timeout


def mail_all(lab: Lab, queue: HidingQueue, post: Service, kept: bool, keyed: bool, *waits: float) -> None:
    """One task, with a mail for each recipient."""
    task = look(queue, *waits)
    if task:
        with lab.section("task"), kept_hidden(queue, task) if kept else nullcontext():
            for recipient in RECIPIENTS:
                post.call(recipient, idempotency_key=recipient if keyed else None)
                time.sleep(40)
            queue.delete(task)


def mailing(lab: Lab, kept: bool, keyed: bool) -> None:
    """A takes the task, and may die; B looks when the visibility timeout is over, and again much later.

    Parameters
    ----------
    kept: whether a heartbeat keeps the task hidden.
    keyed: whether each mail carries an idempotency key.
    """
    post = lab.service("post", deduplicates=True)
    lab.redis().rpush(QUEUE, "task")
    lab.worker("A", mail_all, lab, queue_of(lab), post, kept, keyed, 0)
    lab.worker("B", mail_all, lab, queue_of(lab), post, kept, keyed, 35, 75, spared=True)
    lab.always("one worker at a time has the task", lambda: lab.inside("task") <= 1)
    lab.always("each recipient gets one mail", lambda: all(post.count(who) <= 1 for who in RECIPIENTS))
    lab.at_end("each recipient gets a mail in the end", lambda: all(post.count(who) >= 1 for who in RECIPIENTS))


P01 = Case(
    id="P01",
    title="pretix: a mail task of more than an hour is sent again every hour",
    sources=("https://github.com/pretix/pretix/issues/2058", "https://github.com/celery/celery/issues/5935"),
    mechanism="What is not acknowledged after an hour is given out again, although its worker is still sending.",
    fix="A heartbeat hides the task for as long as its worker lives; a key for each mail, for when it has died.",
    broken=lambda lab: mailing(lab, kept=False, keyed=False),
    fixed=lambda lab: mailing(lab, kept=True, keyed=True),
    budgets={"crashes": 1},
    known=7,
)


# ---- P02: a task that is held until its time has come

ETA = 100


def hold(lab: Lab, queue: HidingQueue, eta: float, *waits: float) -> None:
    """Take a task, and hold it until it is due."""
    task = look(queue, *waits)
    if task:
        time.sleep(max(0, eta - time.time()))
        lab.mail.send(task[0])
        queue.delete(task)


def scheduled(lab: Lab, delayed: bool = False, timeout: int = TIMEOUT) -> None:
    """Two workers that look for a task now and then, and one task that is due in 100 s.

    Parameters
    ----------
    delayed: whether the task is hidden from the start until it is due.
    timeout: the visibility timeout.
    """
    eta = time.time() + ETA
    seen = lab.redis()
    seen.rpush(QUEUE, "report")
    if delayed:
        seen.set(f"{QUEUE}:hidden:report", "not due", ex=ETA)
    lab.worker("A", hold, lab, queue_of(lab, timeout), eta, 0, 105)
    lab.worker("B", hold, lab, queue_of(lab, timeout), eta, 35, 70)
    lab.always("the task runs once", lambda: lab.mail.count("report") <= 1)
    lab.at_end("the task runs in the end", lambda: lab.mail.count("report") >= 1)


P02 = Case(
    id="P02",
    title="Celery: a task whose time is further off than the visibility timeout multiplies",
    sources=("https://github.com/celery/celery/issues/2481", "https://github.com/celery/celery/issues/2599"),
    mechanism="A worker holds the task until it is due; meanwhile it is given out again, to be held by the next one.",
    fix="A task that is not due is delivered to nobody; or a visibility timeout that is longer than any delay.",
    broken=scheduled,
    fixed=lambda lab: scheduled(lab, delayed=True),
)


# ---- P03: two times that nobody compares

TAKES, LIMIT = 60, 80  # seconds that the job takes, and after which a worker ends it


def run_job(lab: Lab, queue: HidingQueue, *waits: float) -> None:
    """Run the job, for as long as it may."""
    job = look(queue, *waits)
    if job:
        with lab.section("job"):
            time.sleep(min(TAKES, LIMIT))
            lab.mail.send(job[0])
        queue.delete(job)


def retried(lab: Lab, retry_after: int) -> None:
    """A takes the job, and may die; B looks soon after, and again much later."""
    lab.redis().rpush(QUEUE, "job")
    lab.worker("A", run_job, lab, queue_of(lab, retry_after), 0)
    lab.worker("B", run_job, lab, queue_of(lab, retry_after), 35, 60, spared=True)
    lab.always("one worker at a time runs the job", lambda: lab.inside("job") <= 1)
    lab.at_end("the job is done in the end", lambda: lab.mail.count("job") >= 1)


P03 = Case(
    id="P03",
    title="Laravel: retry_after is shorter than the job's time limit",
    sources=("https://github.com/laravel/framework/issues/52493",),
    mechanism="A job counts as lost after 30 s, but may take 80 s; one that takes 60 s is started a second time.",
    fix="Give a job out again after its time limit, and not before; a worker can compare the two when it starts.",
    broken=lambda lab: retried(lab, retry_after=30),
    fixed=lambda lab: retried(lab, retry_after=LIMIT + 10),
    budgets={"crashes": 1},
)


# ---- P08: messages that wait in a worker's own memory


def prefetch(lab: Lab, queue: HidingQueue, kept: int, *waits: float) -> None:
    """Take two messages at once, work on the first, then on the second."""
    deliveries = [found for found in (look(queue, *waits), queue.receive()) if found]
    with kept_hidden(queue, *deliveries[:kept]) if kept else nullcontext():
        for delivery in deliveries:
            lab.mail.send(delivery[0])
            time.sleep(40)
            queue.delete(delivery)


def prefetching(lab: Lab, kept: int) -> None:
    """Two workers, the second of which comes when the visibility timeout is over.

    Parameters
    ----------
    kept: how many of its messages a worker's heartbeat keeps hidden.
    """
    lab.redis().rpush(QUEUE, "first", "second")
    lab.worker("A", prefetch, lab, queue_of(lab), kept, 0)
    lab.worker("B", prefetch, lab, queue_of(lab), kept, 35)
    lab.always("the message at work is worked on once", lambda: lab.mail.count("first") <= 1)
    lab.always("the prefetched message is worked on once", lambda: lab.mail.count("second") <= 1)


P08 = Case(
    id="P08",
    title="dramatiq_sqs: no heartbeat, and messages that expire in the worker's own queue",
    sources=("https://github.com/Bogdanp/dramatiq_sqs/pull/53",),
    mechanism="The visibility timeout runs from the receive, also for messages that wait behind the one at work.",
    fix="A thread hides all that the worker has received anew, a bounded number of times.",
    broken=lambda lab: prefetching(lab, kept=0),
    fixed=lambda lab: prefetching(lab, kept=2),
)


# ---- P09: a delete that comes too late is an error


class ReceiptHandleHasExpired(Exception):
    """What a FIFO queue says to a delete after the visibility timeout."""


def delete_in_time(queue: HidingQueue, delivery: Delivery) -> None:
    """Delete a message as a FIFO queue does: not once the visibility timeout is over."""
    if not queue.delete(delivery):
        raise ReceiptHandleHasExpired(delivery[0])


def pump(lab: Lab, queue: HidingQueue, post: Service, kept: bool, keyed: bool, caught: bool, arrives: float) -> None:
    """Handle up to four messages, one of which takes 40 s, and report for more."""
    for wait in (arrives, 0, 0, 0):
        delivery = look(queue, wait)
        if delivery is None:
            break
        message, _ = delivery
        with kept_hidden(queue, delivery) if kept else nullcontext():
            post.call(message, idempotency_key=message if keyed else None)
            if message == "slow":
                time.sleep(40)
        with suppress(ReceiptHandleHasExpired) if caught else nullcontext():
            delete_in_time(queue, delivery)
    queue.redis.incr("reported")


def pumping(lab: Lab, kept: bool, keyed: bool, caught: bool) -> None:
    """A, which may be paused, and B, which is started some time later.

    Parameters
    ----------
    kept: whether a heartbeat keeps messages hidden.
    keyed: whether effects carry an idempotency key.
    caught: whether a pump goes on when a delete fails.
    """
    seen, post = lab.redis(), lab.service("post", deduplicates=True)
    seen.rpush(QUEUE, "slow", "quick")
    for name, wait in (("A", 0), ("B", 35)):
        lab.worker(name, pump, lab, queue_of(lab), post, kept, keyed, caught, wait, spared=name == "B")
    lab.always("each message takes effect once", lambda: max(post.count("slow"), post.count("quick")) <= 1)
    lab.at_end("each pump goes on until there is nothing left", lambda: seen.get("reported") == b"2")
    lab.at_end("no message is left in the end", lambda: not seen.exists(QUEUE))


P09 = Case(
    id="P09",
    title="SQS FIFO: a delete after the visibility timeout is an error, and ends the consumer",
    sources=(
        "https://github.com/bbc/sqs-consumer/issues/83",
        "https://github.com/aws/aws-sdk-js/issues/1279",
        "https://github.com/BrighterCommand/Brighter/pull/4040",
        "https://github.com/boto/boto3/issues/2898",
    ),
    mechanism="The work is done, but too late for the delete: its error ends the pump, and the message comes again.",
    fix="Hide the message while its worker lives, let the pump outlive a failed delete, and give effects a key.",
    broken=lambda lab: pumping(lab, kept=False, keyed=False, caught=False),
    fixed=lambda lab: pumping(lab, kept=True, keyed=True, caught=True),
    budgets={"pauses": 1},
)
