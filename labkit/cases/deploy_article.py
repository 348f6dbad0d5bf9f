"""The second article's handler, its locks, its queue and its shutdown; its table of keys is in `processed_events`."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import LockError

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.cases.redelivery import QUEUE, TIMEOUT, Delivery, HidingQueue, look, queue_of
from labkit.lab import Service
from labkit.locks import AtomicLock, FencedLock, FencedRegister
from labkit.queues import MessageNotInflight, VisibilityQueue

LOCK, TTL = "lock", 30


# ---- 003-a: has, then set


def has_then_set(r: Any) -> bool:
    """The antipattern, which the article shows as one."""
    if r.exists(LOCK):
        return False
    return bool(r.set(LOCK, "true", ex=TTL))


def set_if_absent(r: Any) -> bool:
    """Both in one command."""
    return bool(r.set(LOCK, "true", ex=TTL, nx=True))


def process_job(lab: Lab, r: Any, acquire: Callable[[Any], bool]) -> None:
    """Process the job if the lock is free, then delete it."""
    if acquire(r):
        with lab.section("job"):
            lab.mail.send("order-1")
        r.delete(LOCK)


def contend(lab: Lab, acquire: Callable[[Any], bool]) -> None:
    """Two workers and one lock."""
    for name in "AB":
        lab.worker(name, process_job, lab, lab.redis(), acquire)
    lab.always("one worker at a time processes the job", lambda: lab.inside("job") <= 1)


HAS_THEN_SET = Case(
    id="003-a",
    title="Article 2, the antipattern: cache.has, then cache.set",
    sources=(),
    mechanism="Two workers both hear that there is no lock before either of them has set it.",
    fix="One command that sets the lock with its time to live, if it is absent.",
    broken=lambda lab: contend(lab, has_then_set),
    fixed=lambda lab: contend(lab, set_if_absent),
    known=6,
)


# ---- 003-d: a job that is longer than its lock, and than its message is hidden


def keep(queue: HidingQueue, delivery: Delivery, lock: AtomicLock, done: threading.Event) -> None:
    """Hide the message anew, and renew the lock, until the job is done."""
    while not done.wait(25):
        queue.hide(delivery)
        lock.reacquire()


def handle(lab: Lab, queue: HidingQueue, r: Any, mailer: Service, kept: bool, keyed: bool, *waits: float) -> None:
    """The article's handler; when the lock is taken it fails, and the message comes again."""
    lock = AtomicLock(r, LOCK, timeout=TTL, blocking=False, thread_local=False)
    for seconds in waits:
        delivery = look(queue, seconds)
        if delivery and lock.acquire():
            done = threading.Event()
            if kept:
                threading.Thread(target=keep, args=(queue, delivery, lock, done), name="heartbeat").start()
            with lab.section("handler"):
                time.sleep(45)
                mailer.call(delivery[0], idempotency_key=delivery[0] if keyed else None)
                queue.delete(delivery)
            done.set()
            with suppress(LockError):
                lock.release()


def slow_jobs(lab: Lab, kept: bool, keyed: bool) -> None:
    """A may die; B looks when the message may have come back, and again much later.

    Parameters
    ----------
    kept: whether a thread keeps the message hidden and renews the lock while the job runs.
    keyed: whether the mail carries an idempotency key.
    """
    lab.redis().rpush(QUEUE, "order-1")
    mailer = lab.service("mailer", deduplicates=True)
    for name, waits in (("A", (0,)), ("B", (TIMEOUT, 60))):
        own = queue_of(lab), lab.redis()
        lab.worker(name, handle, lab, *own, mailer, kept, keyed, *waits, spared=name == "B")
    lab.always("one worker at a time is in the handler", lambda: lab.inside("handler") <= 1)
    lab.always("one mail is sent", lambda: mailer.count() <= 1)
    lab.at_end("a mail is sent in the end", lambda: mailer.count() >= 1)


SHORT_LEASES = Case(
    id="003-d",
    title="Article 2, the handler: 45 s of work under a lock of 30 s and a visibility timeout of 30 s",
    sources=(),
    mechanism="Lock and message come free together while their worker is still at it, so the next one gets both.",
    fix="Keep the message hidden and renew the lock while the job runs; and a key for the mail, for when it dies.",
    broken=lambda lab: slow_jobs(lab, kept=False, keyed=False),
    fixed=lambda lab: slow_jobs(lab, kept=True, keyed=True),
    budgets={"crashes": 1},
    known=7,
)


# ---- 003-f: a lock without a time to live


def run_locked(queue: HidingQueue, r: Any, mailer: Service, ttl: int | None, wait: float) -> None:
    """acquireLockOrFail, the work, ack, releaseLock."""
    delivery = look(queue, wait)
    if delivery and r.set(LOCK, "mine", nx=True, ex=ttl):
        mailer.call(delivery[0])
        queue.delete(delivery)
        r.delete(LOCK)


def deaths(lab: Lab, ttl: int | None) -> None:
    """A may die; B gets the message when it comes back."""
    lab.redis().rpush(QUEUE, "order-1")
    for name, wait in (("A", 0), ("B", TIMEOUT)):
        lab.worker(name, run_locked, queue_of(lab), lab.redis(), lab.mail, ttl, wait, spared=name == "B")
    lab.at_end("the job runs in the end", lambda: lab.mail.count("order-1") >= 1)


LOCK_FOR_EVER = Case(
    id="003-f",
    title="Article 2, the handler: acquireLockOrFail shows no time to live",
    sources=(),
    mechanism="The lock of a worker that died is never free again, so every redelivery fails.",
    fix="A time to live, in the command that takes the lock.",
    broken=lambda lab: deaths(lab, None),
    fixed=lambda lab: deaths(lab, TTL),
    budgets={"crashes": 1},
    known=6,
)


# ---- 003-dlq: buried while it is being processed


def beat(queue: VisibilityQueue, receipt: str, done: threading.Event) -> None:
    """Hide a message anew until its job is done."""
    with suppress(MessageNotInflight):  # it was deleted a moment ago
        while not done.wait(TIMEOUT / 2):
            queue.change_visibility(receipt, TIMEOUT)


def process(lab: Lab, queue: VisibilityQueue, fixed: bool, wait: float) -> None:
    """Receive a message after some time, work on it for 45 s after its effect, and delete it."""
    if wait:
        time.sleep(wait)
    for message in queue.receive():
        done = threading.Event()
        if fixed:
            threading.Thread(target=beat, args=(queue, message.receipt_handle, done), name="heartbeat").start()
        with lab.section("job"):
            lab.mail.send(message.body)
            time.sleep(45)
        done.set()
        queue.delete(message.receipt_handle)


def one_delivery(lab: Lab, fixed: bool) -> None:
    """A queue that delivers each message once, and then takes it for a failure; B looks half a minute after A."""
    queue = VisibilityQueue.create(lab.redis(), "jobs", visibility_timeout=TIMEOUT, max_receive_count=1)
    queue.send("order-1")
    for name, wait in (("A", 0), ("B", TIMEOUT)):
        lab.worker(name, process, lab, VisibilityQueue(lab.redis(), "jobs"), fixed, wait)
    lab.deadlines(queue.deadlines)

    def buried() -> int:
        return queue.attributes().dead_lettered

    lab.always("nothing is buried that a worker is at", lambda: not (buried() and lab.inside("job")))
    lab.at_end("what is done is not among the dead letters", lambda: not (buried() and lab.mail.count("order-1")))


BURIED = Case(
    "003-dlq",
    "Article 2, the queue: a message goes to the dead letters while it is being processed",
    (),
    "The queue counts deliveries, not failures: at the next receive the message has had its one, and is buried.",
    "A heartbeat that keeps the message hidden for as long as its worker lives.",
    *in_both(one_delivery),
    known=5,
)


# ---- 003-g: the old worker settles a message that another has received


def fail(queue: VisibilityQueue) -> None:
    """Fail, and give the message back, perhaps late."""
    for message in queue.receive():
        with suppress(MessageNotInflight):  # it is visible already
            queue.change_visibility(message.receipt_handle, 0)


def work(lab: Lab, queue: VisibilityQueue) -> None:
    """Come when the message is visible again, work on it, and delete it."""
    time.sleep(TIMEOUT)
    for message in queue.receive():
        with lab.section("window"):
            lab.mail.send(message.body)
            queue.delete(message.receipt_handle)


def late_settlement(lab: Lab, old_receipts: str) -> None:
    """A fails, and may be paused before it says so; B and C come later.

    Parameters
    ----------
    old_receipts: what the receipt handle of an earlier delivery does; see `QueueRules`.
    """
    queue = VisibilityQueue.create(lab.redis(), "jobs", visibility_timeout=TIMEOUT, old_receipts=old_receipts)
    queue.send("order-1")
    lab.worker("A", fail, VisibilityQueue(lab.redis(), "jobs"))
    for name in "BC":
        lab.worker(name, work, lab, VisibilityQueue(lab.redis(), "jobs"), spared=True)
    lab.deadlines(queue.deadlines)
    lab.always("one worker at a time has the message", lambda: lab.inside("window") <= 1)


OLD_RECEIPT = Case(
    id="003-g",
    title="Article 2, the shutdown: the old worker's late answer counts for the new delivery",
    sources=(),
    mechanism="The old worker gives back what another has received since, and the queue hands it to a third one.",
    fix="A receipt for each delivery; one that is old does nothing.",
    broken=lambda lab: late_settlement(lab, "delete"),
    fixed=lambda lab: late_settlement(lab, "ignore"),
    budgets={"pauses": 1},
    known=6,
)


# ---- 003-h: a fencing token that is drawn apart from the lock


def lock_then_number(r: Any) -> int:
    """A lock, and a fencing token from a counter; 0 when the lock is taken."""
    return int(r.incr("tokens")) if AtomicLock(r, LOCK, timeout=TTL).acquire(blocking=False) else 0


def lock_with_number(r: Any) -> int:
    """The same in one script."""
    lock = FencedLock(r, LOCK, timeout=TTL)
    return lock.fencing_token if lock.acquire(blocking=False) else 0


def write_fenced(r: Any, acquire: Callable[[Any], int], me: str, *waits: float) -> None:
    """Take the lock, write, and leave the lock to its lease; look again later when it is taken."""
    for seconds in waits:
        if seconds:
            time.sleep(seconds)
        if token := acquire(r):
            with suppress(LockError):
                FencedRegister(r, "register").write(token, me)
            return


def overtaken(lab: Lab, acquire: Callable[[Any], int]) -> None:
    """A may be paused for its whole lease; B comes when that is over, and takes the lock in the end."""
    seen = FencedRegister(lab.redis(), "register")
    for name, waits in (("A", (0,)), ("B", (TTL, 2 * TTL))):
        lab.worker(name, write_fenced, lab.redis(), acquire, name, *waits, spared=name == "B")
    lab.at_end("the last holder's write is kept", lambda: seen.read() == b"B")


SEPARATE_TOKEN = Case(
    id="003-h",
    title="Article 2, the lock that is extended: a fencing token of its own",
    sources=(),
    mechanism="Who has lost its lock draws the greater token: its late write is accepted, the next holder's refused.",
    fix="Draw the token in the script that takes the lock.",
    broken=lambda lab: overtaken(lab, lock_then_number),
    fixed=lambda lab: overtaken(lab, lock_with_number),
    budgets={"pauses": 1},
    known=7,
)


# ---- 003-i: a receive that is under way at SIGTERM

PROCESSING = "processing"


def receive(r: Any, moves: bool) -> str | None:
    """Wait for a message; take it into a list of the worker's own, or just take it."""
    if moves:
        message: str | None = r.blmove("jobs", PROCESSING, 20)
        return message
    found = r.brpop(["jobs"], timeout=20)
    return found[1] if found else None


def serve(r: Any, mailer: Service, fixed: bool) -> None:
    """Work until told to stop; after that, begin nothing."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    while not told.is_set():
        message = receive(r, moves=fixed)
        if message and not told.is_set():
            mailer.call(message)
            r.lrem(PROCESSING, 1, message)
        elif message and fixed:
            r.lmove(PROCESSING, "jobs")


def stopping(lab: Lab, fixed: bool) -> None:
    """A polls, and may be told to stop; P sends one message."""
    seen = lab.redis()
    lab.worker("A", serve, lab.redis(decode_responses=True), lab.mail, fixed, signals=1, forever=True)
    lab.worker("P", lambda r: r.lpush("jobs", "order-1"), lab.redis(), spared=True)

    def left() -> int:
        return int(seen.llen("jobs")) + int(seen.llen(PROCESSING))

    lab.at_end("the message is in the queue, at work, or done", lambda: left() + lab.mail.count("order-1") >= 1)


LAST_RECEIVE = Case(
    "003-i",
    "Article 2, the graceful shutdown: the receive that is under way is on nobody's list",
    (),
    "The poll that was sent before SIGTERM still takes a message, which a worker that stops does not begin.",
    "Receive into a list of one's own, wait for the poll that is under way, and give back what it brought.",
    *in_both(stopping),
    known=3,
)
