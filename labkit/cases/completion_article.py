"""The first article's own function that completes a job, and what its lock and its guard do not keep off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import redis

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.cases.held_locks import late_release
from labkit.cases.redelivery import QUEUE, HidingQueue, look, queue_of
from labkit.idempotency import SqlStatusStore, transaction
from labkit.idempotency.status import as_text
from labkit.lab import Service
from labkit.locks import AtomicLock, UnownedLock
from labkit.stores.sql_connection import SqlConnection

LOCK, STATUS, OUTBOX, TTL = "job_lock:1", "job_status:1", "outbox", 30
ONCE = "the event goes out once"
TOLD = "a completed job's event goes out in the end"
Complete = Callable[[Any, Service], bool]
_COMPLETE = """-- complete once, with the event
if redis.call('get', KEYS[1]) == 'completed' then return 0 end
redis.call('set', KEYS[1], 'completed', 'KEEPTTL')
redis.call('rpush', KEYS[2], ARGV[1])
return 1
"""


def is_completed(r: Any) -> bool:
    """The guard."""
    return bool(r.get(STATUS) == b"completed")


def set_completed(r: Any) -> None:
    """The write."""
    r.set(STATUS, "completed")


def mark_job_completed(
    r: Any,
    events: Service,
    guard: Callable[[Any], bool] = is_completed,
    write: Callable[[Any], None] = set_completed,
) -> bool:
    """As the article has it; False means that another worker is on it."""
    if not r.set(LOCK, "locked", ex=TTL, nx=True):
        return False
    try:
        if guard(r):
            return True
        write(r)
        events.publish("1")
        return True
    finally:
        r.delete(LOCK)


def complete_with_outbox(r: Any, events: Service) -> bool:
    """Compare the status, set it and put the event into an outbox, in one step; a relay publishes it."""
    r.register_script(_COMPLETE)([STATUS, OUTBOX], ["1"])
    return True


def relay(r: Any, events: Service) -> None:
    """Publish what comes into the outbox."""
    while True:
        event = r.blmove(OUTBOX, "publishing", 0)
        events.publish(event)
        r.lrem("publishing", 1, event)


def two_workers(lab: Lab, complete: Complete, **options: Any) -> None:
    """Both have done the job, and complete it."""
    for name in "AB":
        lab.worker(name, complete, lab.redis(**options), lab.events)
    around(lab, complete)


def around(lab: Lab, complete: Complete) -> None:
    """The job's status, the relay if there is an outbox, and that the event goes out once. (A relay may die in P39.)"""
    seen = lab.redis()
    seen.set(STATUS, "in-progress")
    if complete is complete_with_outbox:
        lab.worker("relay", relay, lab.redis(decode_responses=True), lab.events, spared=True, forever=True)
    lab.always(ONCE, lambda: lab.events.count("1") <= 1)
    lab.at_end(TOLD, lambda: seen.get(STATUS) != b"completed" or lab.events.count("1") >= 1)


CHECK_THEN_ACT = Case(
    id="000-a",
    title="Article 1, completing a job: a lock of 30 s around look, write and publish",
    sources=(),
    mechanism="A worker is paused after its look for longer than its lock lasts, and goes on as if it held it.",
    fix="One step that compares the status, sets it, and puts the event into an outbox; an owned lock is not enough.",
    broken=lambda lab: two_workers(lab, mark_job_completed),
    fixed=lambda lab: two_workers(lab, complete_with_outbox),
    budgets={"pauses": 1},
    known=9,
)

UNOWNED_RELEASE = Case(
    id="000-b",
    title="Article 1, releasing the lock: `locked` for everybody, deleted in `finally`",
    sources=(),
    mechanism="A worker whose lock has ended deletes the next one's, since all locks look the same.",
    fix="A random token for each acquisition, compared and deleted in one script.",
    broken=lambda lab: late_release(lab, UnownedLock),
    fixed=lambda lab: late_release(lab, AtomicLock),
    budgets={"pauses": 1},
    known=5,
)

STATUS_FIRST = Case(
    id="000-c",
    title="Article 1, completing a job: the status is written before the event is published",
    sources=(),
    mechanism="A worker dies between the two; whoever tries again sees `completed`, and leaves it at that.",
    fix="One step that sets the status and puts the event into an outbox; to publish first only moves the gap.",
    broken=lambda lab: two_workers(lab, mark_job_completed),
    fixed=lambda lab: two_workers(lab, complete_with_outbox),
    budgets={"crashes": 1},
    known=5,
)


# ---- 000-f: a guard that is never true


def guard_of_texts(r: Any) -> bool:
    """The guard, whatever the client gives."""
    return bool(as_text(r.get(STATUS)) == "completed")


def decoding(lab: Lab, guard: Callable[[Any], bool], decode_responses: bool = True) -> None:
    """Two workers whose clients decode replies, unless told otherwise."""
    two_workers(lab, partial(mark_job_completed, guard=guard), decode_responses=decode_responses)


UNDECODED = Case(
    id="000-f",
    title="Article 1, the guard: it compares with bytes, and the client decodes replies",
    sources=(),
    mechanism="With `decode_responses=True` the status is a text, and no text equals the bytes: there is no guard.",
    fix="Make a text of the reply, whichever the client gives, and compare that.",
    broken=lambda lab: decoding(lab, is_completed),
    fixed=lambda lab: decoding(lab, guard_of_texts),
    known=9,
)


# ---- 000-g: a status that Redis forgets


def is_stored_as_completed(db: SqlConnection, r: Any) -> bool:
    """The guard, in the database."""
    return SqlStatusStore(db).get("1") == "completed"


def store_completed(db: SqlConnection, r: Any) -> None:
    """The write, in the database, and in Redis for those who only want to know."""
    with transaction(db):
        SqlStatusStore(db).compare_and_set("1", "completed")
    r.set(STATUS, "completed")


def eviction(lab: Lab, fixed: bool) -> None:
    """E stands for Redis, which may evict the status when its memory is full."""
    stored = SqlStatusStore(lab.sql())
    stored.create()
    stored.begin("1", "in-progress")
    for name in "AB":
        db, complete = lab.sql(), partial(mark_job_completed)
        if fixed:
            complete = partial(complete, guard=partial(is_stored_as_completed, db), write=partial(store_completed, db))
        lab.worker(name, complete, lab.redis(), lab.events)
    lab.worker("E", lambda r: r.delete(STATUS), lab.redis())
    around(lab, mark_job_completed)


EVICTED = Case(
    "000-g",
    "Article 1, the guard: a status that Redis has evicted is taken for not completed",
    (),
    "A status that is gone looks like one that never was, so the guard lets the second completion pass.",
    "What must not be forgotten is in the database, which the guard asks; Redis has a copy of it.",
    *in_both(eviction),
    known=10,
)


# ---- 000-c'': the same loss without a crash


def retry(complete: Complete, r: Any, events: Service) -> None:
    """Try again once when Redis, or the event bus, does not answer."""
    for _ in range(2):
        with suppress(redis.TimeoutError, TimeoutError):
            complete(r, events)
            return


def one_worker(lab: Lab, complete: Complete) -> None:
    """A worker that may get no reply, and then tries again."""
    lab.worker("A", retry, complete, lab.redis(), lab.events)
    around(lab, complete)


LOST_REPLY = Case(
    id="000-c''",
    title="Article 1, completing a job: the status is written, but the reply is lost",
    sources=(),
    mechanism="The write has taken effect although it looks failed; the retry sees `completed`, and publishes nothing.",
    fix="One step that sets the status and puts the event into an outbox: done both or neither, whatever was heard.",
    broken=lambda lab: one_worker(lab, mark_job_completed),
    fixed=lambda lab: one_worker(lab, complete_with_outbox),
    budgets={"lost_replies": 1},
    known=7,
)


# ---- 000-d, 000-e: the queue around the function

VISIBILITY = 10  # seconds, fewer than the lock lasts


def no_charge(charges: Service) -> None:
    """A job without an effect."""


def charge(charges: Service) -> None:
    """The job's effect."""
    charges.call("1")


def charge_by_key(charges: Service) -> None:
    """The job's effect, with a key by which the service knows it again."""
    charges.call("1", idempotency_key="charge 1")


def consume(queue: HidingQueue, r: Any, events: Service, do: Callable[[], None], busy: bool, *waits: float) -> None:
    """Do what the message says, complete the job, and acknowledge the message."""
    for seconds in waits:
        delivery = look(queue, seconds)
        if delivery:
            do()
            if mark_job_completed(r, events) or not busy:
                queue.delete(delivery)


def consumers(lab: Lab, do: Callable[[Service], None], busy: bool = True) -> None:
    """A may die; B comes when the message is visible again, and when the lock has ended.

    Parameters
    ----------
    do: the job's effect.
    busy: whether False from the function means that the message must come again.
    """
    seen, charges = lab.redis(), lab.service("charges", deduplicates=True)
    seen.set(STATUS, "in-progress")
    seen.rpush(QUEUE, "1")
    for name, waits in (("A", (0,)), ("B", (VISIBILITY, TTL))):
        own = queue_of(lab, VISIBILITY), lab.redis()
        lab.worker(name, consume, *own, lab.events, partial(do, charges), busy, *waits, spared=name == "B")
    lab.always("the customer is charged once", lambda: charges.count() <= 1)
    lab.always(
        "a message that is gone has its job completed", lambda: seen.exists(QUEUE) or seen.get(STATUS) == b"completed"
    )
    lab.at_end("the job is completed in the end", lambda: seen.get(STATUS) == b"completed")


BUSY_IS_DONE = Case(
    id="000-d",
    title="Article 1, the return value: False for a busy lock, and the message is acknowledged",
    sources=(),
    mechanism="The lock of a worker that died looks like one at work; who finds it busy acknowledges what nobody does.",
    fix="Tell busy from done: do not acknowledge what is busy, and it comes again.",
    broken=lambda lab: consumers(lab, no_charge, busy=False),
    fixed=lambda lab: consumers(lab, no_charge),
    budgets={"crashes": 1},
    known=7,
)

UNPROTECTED_EFFECT = Case(
    id="000-e",
    title="Article 1, the whole job: the status is written once, the customer charged twice",
    sources=(),
    mechanism="Lock and guard protect the writing of the status; the job before it runs again with each redelivery.",
    fix="An idempotency key at the effect.",
    broken=lambda lab: consumers(lab, charge),
    fixed=lambda lab: consumers(lab, charge_by_key),
    budgets={"crashes": 1},
    known=13,
)
