"""Records of what was processed: made too early, too late, for too much, or thrown away too soon."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from redis.exceptions import LockError

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.cases.redelivery import QUEUE, TIMEOUT, HidingQueue, look, queue_of
from labkit.idempotency import Claimed, Done, IdempotencyRecords, ProcessedEvents, effect_key, transaction
from labkit.lab import Service
from labkit.locks import AtomicLock
from labkit.stores.sql_connection import SqlConnection

LEASE = 30
DEDUCT = "UPDATE stock SET sold = sold + 1"
MARKED = """
    SELECT effect_key FROM processed_events
    UNION SELECT effect_key FROM idempotency_records WHERE result IS NOT NULL
"""
Handle = Callable[[Any, SqlConnection, Service, str], bool]


def consume(lab: Lab, queue: HidingQueue, db: SqlConnection, mailer: Service, handle: Handle, *waits: float) -> None:
    """Look for an event after each of these waits, and delete it when the handler says that it is done with."""
    for seconds in waits:
        delivery = look(queue, seconds)
        if delivery:
            event, _ = delivery
            with suppress(LockError), lab.section(event):  # what fails comes again
                if handle(queue.redis, db, mailer, event):
                    queue.delete(delivery)


def world(lab: Lab, *events: str) -> tuple[SqlConnection, Service]:
    """A queue with these events, the tables, and a mail service that takes idempotency keys."""
    db = lab.sql()
    lab.redis().rpush(QUEUE, *events)
    ProcessedEvents(db).create()
    IdempotencyRecords(db).create()
    db.execute("CREATE TABLE stock (sold INTEGER)")
    db.execute("INSERT INTO stock VALUES (0)")
    return db, lab.service("mailer", deduplicates=True)


def sold(db: SqlConnection) -> int:
    """How many pieces were deducted from the stock."""
    return int(db.execute("SELECT sold FROM stock").fetchone()[0])


def deliveries(lab: Lab, handle: Handle, looks: int = 1) -> tuple[SqlConnection, Service]:
    """A receives an event; B comes when it may be visible again, so many times."""
    db, mailer = world(lab, "order-1")
    lab.worker("A", consume, lab, queue_of(lab), lab.sql(), mailer, handle, 0)
    lab.worker("B", consume, lab, queue_of(lab), lab.sql(), mailer, handle, *[TIMEOUT] * looks, spared=True)
    return db, mailer


def is_first(db: SqlConnection, key: str) -> bool:
    """Whether this is the first to insert the key; that counts from the commit on."""
    insert = "INSERT INTO processed_events VALUES (?, 0) ON CONFLICT DO NOTHING"
    return db.execute(insert, (key,)).rowcount == 1


# ---- P33, 003-b: the key is committed before the effect


def key_first(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """Insert the key and commit; go on only if the insert won. Who finds the key acknowledges the message."""
    with transaction(db):
        first = is_first(db, event)
    if first:
        mailer.call(event)
    return True


def claim_first(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """Claim the event for a while, and complete its record after the effect. Only who finds it done acknowledges."""
    records, owner = IdempotencyRecords(db), uuid.uuid4().hex
    with transaction(db):
        answer = records.claim(event, owner, LEASE)
    if isinstance(answer, Claimed):
        mailer.call(event, idempotency_key=event)
        with transaction(db):
            records.complete(event, owner)
    return isinstance(answer, (Claimed, Done))


def is_true(lab: Lab, mailer: Service, db: SqlConnection) -> bool:
    """Whether what is marked as processed was, or is being processed."""
    return all(mailer.count(event) or lab.inside(event) for (event,) in db.execute(MARKED))


def unfinished(lab: Lab, handle: Handle) -> None:
    """A may die."""
    db, mailer = deliveries(lab, handle)
    lab.at_end("the event takes effect in the end", lambda: mailer.count("order-1") >= 1)
    lab.always("what is marked as processed was, or is being processed", lambda: is_true(lab, mailer, db))


P33 = Case(
    id="P33",
    title="pgbus: the row of a processed event is there before the event is processed",
    sources=("https://github.com/zoolutions/pgbus/issues/385",),
    mechanism="The row is committed, then the worker is killed; the next delivery finds the row, and is archived.",
    fix="Two phases: claimed under a lease, then completed; a delivery is skipped when the record says completed.",
    broken=lambda lab: unfinished(lab, key_first),
    fixed=lambda lab: unfinished(lab, claim_first),
    budgets={"crashes": 1},
    known=7,
)

PROCESSED_FIRST = Case(
    id="003-b",
    title="Article 2, the idempotency table: insert, commit, go on if the insert won",
    sources=(),
    mechanism="A worker dies between the commit and the mail; who gets the message again finds the key.",
    fix="A record in three states, in progress with an owner and a lease, then completed; skip on completed only.",
    broken=lambda lab: unfinished(lab, key_first),
    fixed=lambda lab: unfinished(lab, claim_first),
    budgets={"crashes": 1},
    known=7,
)


# ---- 003-c: the key comes before the lock


def locked(r: Any) -> AtomicLock:
    """The lock for the customer of all these orders; it raises when it is taken."""
    return AtomicLock(r, "lock:customer", timeout=LEASE, blocking=False)


def key_then_lock(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """Steps 2 to 7 of the flow."""
    with transaction(db):
        first = is_first(db, event)
    if first:
        with locked(r):
            mailer.call(event)
    return True


def lock_then_key(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """The same steps, the lock first."""
    with locked(r):
        return key_first(r, db, mailer, event)


def two_orders(lab: Lab, handle: Handle) -> None:
    """Two orders of one customer, and two workers, which look again when a message may have come back."""
    db, mailer = world(lab, "order-1", "order-2")
    for name in "AB":
        lab.worker(name, consume, lab, queue_of(lab), lab.sql(), mailer, handle, 0, TIMEOUT)
    lab.at_end("each event takes effect in the end", lambda: mailer.count() == 2)
    lab.always("what is marked as processed was, or is being processed", lambda: is_true(lab, mailer, db))


KEY_THEN_LOCK = Case(
    id="003-c",
    title="Article 2, the safer flow: the key in step 2, the lock in step 4",
    sources=(),
    mechanism="Who finds the lock taken fails with its key committed; the next delivery finds the key, and is deleted.",
    fix="The lock first, then the key; where workers may die as well, a record in three states (003-b).",
    broken=lambda lab: two_orders(lab, key_then_lock),
    fixed=lambda lab: two_orders(lab, lock_then_key),
    known=13,
)


# ---- 003-b', 003-b'': an effect outside of the database


def mail_inside(r: Any, db: SqlConnection, mailer: Service, event: str, keyed: bool) -> bool:
    """The mail in the transaction of the key; when the mailer does not answer, once more."""
    for _ in range(2):
        with suppress(TimeoutError), transaction(db):
            if is_first(db, event):
                mailer.call(event, idempotency_key=event if keyed else None)
            return True
    return False


def mail_under_a_record(r: Any, db: SqlConnection, mailer: Service, event: str, keyed: bool) -> bool:
    """A record in three states, each of which is one command: absent, in progress for a while, completed."""
    if r.set(f"record:{event}", "in progress", nx=True, ex=LEASE):
        mailer.call(event, idempotency_key=event if keyed else None)
        r.set(f"record:{event}", "completed")
        return True
    return bool(r.get(f"record:{event}") == "completed")


def outside(lab: Lab, handle: Callable[..., bool], keyed: bool) -> None:
    """A receives the event, and something goes wrong; B comes twice.

    Parameters
    ----------
    handle: how the event is handled.
    keyed: whether the mail service is given an idempotency key.
    """
    _, mailer = deliveries(lab, partial(handle, keyed=keyed), looks=2)
    lab.always("one mail is sent", lambda: mailer.count() <= 1)
    lab.at_end("a mail is sent in the end", lambda: mailer.count() >= 1)


MAIL_INSIDE = Case(
    id="003-b'",
    title="Article 2, the idempotency table: the mail inside the transaction",
    sources=(),
    mechanism="The mail has gone out when the transaction is rolled back, and the key with it.",
    fix="Only what is in the same database belongs into the transaction; a service elsewhere is given the key.",
    broken=lambda lab: outside(lab, mail_inside, keyed=False),
    fixed=lambda lab: outside(lab, mail_inside, keyed=True),
    budgets={"lost_replies": 1, "crashes": 1},
    known=7,
)

RECORD_LIMIT = Case(
    id="003-b''",
    title="Article 2, the idempotency table, with three states: the honest limit",
    sources=(),
    mechanism="Between a mail and the note that it was sent there is always a moment, in which a lease can end.",
    fix="An idempotency key at the service; no record on this side makes an effect over there happen once.",
    broken=lambda lab: outside(lab, mail_under_a_record, keyed=False),
    fixed=lambda lab: outside(lab, mail_under_a_record, keyed=True),
    budgets={"pauses": 1, "crashes": 1},
    known=7,
)


# ---- 003-e: one key for two effects


def a_key_for_both(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """The mail and the stock under the key of the event."""
    with transaction(db):
        if is_first(db, event):
            mailer.call(event)
            db.execute(DEDUCT)
    return True


def a_key_for_each(r: Any, db: SqlConnection, mailer: Service, event: str) -> bool:
    """The mail under its own key, at the service; the stock under its own, in the database."""
    mailer.call(event, idempotency_key=effect_key(event, "confirm"))
    with transaction(db):
        if is_first(db, effect_key(event, "deduct-stock")):
            db.execute(DEDUCT)
    return True


def two_effects(lab: Lab, handle: Handle) -> None:
    """A may die between the effects; B comes later."""
    db, mailer = deliveries(lab, handle)
    lab.always("one mail is sent", lambda: mailer.count() <= 1)
    lab.always("one piece is deducted", lambda: sold(db) <= 1)
    lab.at_end("both effects happen in the end", lambda: mailer.count() * sold(db) >= 1)


ONE_KEY = Case(
    id="003-e",
    title="Article 2, the handler: sendEmail and deductStock under one key of the event",
    sources=(),
    mechanism="One key says done or not done of both; after a death between the two it cannot be right.",
    fix="A key for each effect, order and action, where the effect is: at the mail service, and in the database.",
    broken=lambda lab: two_effects(lab, a_key_for_both),
    fixed=lambda lab: two_effects(lab, a_key_for_each),
    budgets={"crashes": 1},
    known=11,
)


# ---- P36: a lock that is released before the message is acknowledged


def apply(r: Any, db: SqlConnection, mailer: Service, event: str, fixed: bool) -> bool:
    """The business change, in a transaction, under the deduplication lock."""
    with locked(r), transaction(db):
        if not fixed or is_first(db, event):
            db.execute(DEDUCT)
    return True


def deduplicated(lab: Lab, fixed: bool) -> None:
    """A may die; B comes later."""
    db, _ = deliveries(lab, partial(apply, fixed=fixed))
    lab.always("the change is applied once", lambda: sold(db) <= 1)
    lab.at_end("the change is applied in the end", lambda: sold(db) >= 1)


P36 = Case(
    "P36",
    "Symfony: the deduplication lock does not cover a redelivery",
    ("https://github.com/symfony/symfony/issues/65918",),
    "The lock is gone when the change is committed; a worker that dies before it acknowledges is followed by another.",
    "A row for the message, in the same transaction as the change; the lock only keeps two apart.",
    *in_both(deduplicated),
    budgets={"crashes": 1},
)
