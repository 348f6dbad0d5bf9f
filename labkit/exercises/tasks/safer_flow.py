"""Exercise: the seven steps in an order that holds."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis import Redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.orders import DEDUCT, shop, sold, staff
from labkit.exercises.write_program import Advice, World, WriteProgram
from labkit.idempotency import Claimed, IdempotencyRecords, ProcessedEvents, effect_key, transaction
from labkit.lab import Lab, Scenario, Service
from labkit.locks import AtomicLock
from labkit.trace import Trace

LOST = "each order's mail goes out"
TWICE = "no order's mail goes out twice"
STOCK = "one piece of stock for each order"
CLAIM = r"INSERT INTO processed_events .*VALUES \('([^']*)'"

Flow = Callable[[str, str, AtomicLock, Any, Service], object]


def world(flow: Flow, orders: Sequence[str], at_once: str, looks: int) -> Scenario:
    """Orders for one product, and workers with the learner's flow."""

    def safer_flow(lab: Lab) -> None:
        db = shop(lab, orders)
        ProcessedEvents(db).create()
        records = IdempotencyRecords(db)
        records.create()
        lab.deadlines(records.deadlines)
        mail = lab.service("mailer", deduplicates=True)
        staff(lab, lambda: partial(one_order, flow, lab.redis(), lab.sql(), mail), at_once, looks)
        lab.always(TWICE, lambda: all(mail.count(order) <= 1 for order in orders))
        lab.at_end(LOST, lambda: all(mail.count(order) >= 1 for order in orders))
        lab.at_end(STOCK, lambda: sold(db) == len(orders))

    return safer_flow


def one_order(flow: Flow, r: Redis, db: Any, mail: Service, order: str) -> None:
    """Call the learner's flow, with a lock on the product and an owner of this attempt."""
    lock = AtomicLock(r, "lock:lamp", timeout=30, blocking=False, raise_on_release_error=False)
    flow(order, uuid.uuid4().hex, lock, db, mail)


def two_orders(flow: Flow) -> Scenario:
    """Two orders, two workers."""
    return world(flow, ["order-1", "order-2"], "AB", 3)


def one_order_alone(flow: Flow) -> Scenario:
    """One order, one worker, and one that comes later."""
    return world(flow, ["order-1"], "A", 3)


def why_lost(trace: Trace) -> str:
    """What to look at when an order is lost."""
    texts = "\n".join(event.text for event in trace.events)
    if "UPDATE idempotency_records" in texts:
        return "An order is lost: its record says completed, and its worker died before the mail. Complete it last."
    if "INSERT INTO idempotency_records" in texts:
        return (
            "An order is lost: its record was in progress, and somebody took that for done. Who may delete the message?"
        )
    if any(event.kind == "crash" for event in trace.events):
        return "An order is lost: a worker dies, and its key says done. Which of your steps must not come before which?"
    if len(_keys(trace, "idempotency_key=([^,)]+)")) == 1 < sum(event.store == "mailer" for event in trace.events):
        return "An order is lost: both orders have one key, so their mails are one. What is a key made of?"
    claims = sum("INSERT INTO processed_events" in event.text for event in trace.events)
    if claims < 2:
        return (
            "An order is lost, and nobody died: your flow returned before it had done it, and its message was deleted. "
            "What must a flow do that finds the lock busy, or cannot go on?"
        )
    if len(_keys(trace, CLAIM)) < 2:
        return "An order is lost: both orders have one key. What is a key made of?"
    return "An order is lost, and nobody died: its key was there, and then the lock was busy. Which must come first?"


def why_stock(trace: Trace) -> str:
    """What to look at when the mails are right, and the stock is not."""
    if any(event.kind == "crash" for event in trace.events):
        return (
            "The mails are right, and the stock is not: a worker died after it had deducted. What tells the next one "
            "of it, and is that written in the same step?"
        )
    if any("INSERT INTO processed_events" in event.text for event in trace.events) and len(_keys(trace, CLAIM)) < 2:
        return "The mails are right, and the stock is not: both orders have one key. What is a key made of?"
    return "The mails are right, and the stock is not, and nobody died. Who deducts it, and who commits?"


def _keys(trace: Trace, pattern: str) -> set[str]:
    return set(re.findall(pattern, "\n".join(event.text for event in trace.events)))


ADVICE: dict[str, Advice] = {
    LOST: why_lost,
    TWICE: "A mail goes out twice: its order came again after the mail had gone out. Who else could know of it?",
    STOCK: why_stock,
}


def starter(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with transaction(db):
        if not ProcessedEvents(db).claim(order):
            return
    with lock:
        mail.send(order)
        with transaction(db):
            db.execute(DEDUCT)


def solution(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order, idempotency_key=effect_key(order, "confirm"))
        with transaction(db):
            if ProcessedEvents(db).claim(effect_key(order, "deduct")):
                db.execute(DEDUCT)


# ---- mistakes


def lock_then_key(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        with transaction(db):
            if not ProcessedEvents(db).claim(order):
                return
        mail.send(order)
        with transaction(db):
            db.execute(DEDUCT)


def without_a_provider_key(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order)
        with transaction(db):
            if ProcessedEvents(db).claim(effect_key(order, "deduct")):
                db.execute(DEDUCT)


def mail_in_the_transaction(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock, transaction(db):
        if ProcessedEvents(db).claim(effect_key(order, "deduct")):
            mail.send(order)
            db.execute(DEDUCT)


def without_a_key_for_the_stock(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order, idempotency_key=effect_key(order, "confirm"))
        with transaction(db):
            db.execute(DEDUCT)


def the_key_of_the_product(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order, idempotency_key=effect_key("lamp", "confirm"))
        with transaction(db):
            if ProcessedEvents(db).claim(effect_key("lamp", "deduct")):
                db.execute(DEDUCT)


def claimed(order: str, owner: str, db: Any) -> bool:
    """Whether the order's record is this owner's now; an order in progress is taken for done."""
    with transaction(db):
        return isinstance(IdempotencyRecords(db).claim(order, owner, lease=30), Claimed)


def in_progress_is_done(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    if claimed(order, owner, db):
        with lock:
            mail.send(order, idempotency_key=effect_key(order, "confirm"))
            with transaction(db):
                db.execute(DEDUCT)
                IdempotencyRecords(db).complete(order, owner)


def completed_before_the_mail(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        if claimed(order, owner, db):
            with transaction(db):
                db.execute(DEDUCT)
                IdempotencyRecords(db).complete(order, owner)
            mail.send(order, idempotency_key=effect_key(order, "confirm"))


def completed_after_the_stock(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        if claimed(order, owner, db):
            mail.send(order, idempotency_key=effect_key(order, "confirm"))
            with transaction(db):
                db.execute(DEDUCT)
            with transaction(db):
                IdempotencyRecords(db).complete(order, owner)


def does_nothing(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    pass


def leaves_when_it_is_busy(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    if lock.acquire():
        lock.release()
        solution(order, owner, lock, db, mail)


def one_key_for_all_mails(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order, idempotency_key="confirm")
        with transaction(db):
            if ProcessedEvents(db).claim(effect_key(order, "deduct")):
                db.execute(DEDUCT)


def no_commit(order: str, owner: str, lock: AtomicLock, db: Any, mail: Service) -> None:
    with lock:
        mail.send(order, idempotency_key=effect_key(order, "confirm"))
        if ProcessedEvents(db).claim(effect_key(order, "deduct")):
            db.execute(DEDUCT)


safer_flow = WriteProgram(
    "safer_flow",
    "Write my_flow(order, owner, lock, db, mail): steps 2 to 6 in an order that loses nothing and does nothing twice.",
    names=["my_flow"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "The lock may be busy: then nothing must have been written yet. And each effect needs its key where the effect "
        "is: which of the two effects is in the database?",
        "The mail service takes `idempotency_key=`. For the stock, key and effect go into one transaction. Or use "
        "`IdempotencyRecords(db)`: `claim(order, owner, lease=30)` answers `Claimed`, `InProgress` or `Done`.",
        '`with lock:` around everything. In it `mail.send(order, idempotency_key=effect_key(order, "confirm"))`, then '
        'one transaction with `ProcessedEvents(db).claim(effect_key(order, "deduct"))` and the stock.',
    ),
    worlds=[
        World(two_orders, ADVICE, {"crashes": 1}, may_raise=("ClaimLost",)),
        World(one_order_alone, ADVICE, {"crashes": 1, "pauses": 1}, may_raise=("ClaimLost",)),
    ],
    praise="No order is lost, none is done twice, and a busy lock costs nothing but time.",
    mistakes=[
        Mistake("key before lock", (starter,), "and then the lock was busy"),
        Mistake("key before effect", (lock_then_key,), "a worker dies, and its key says done"),
        Mistake("the mail without a key", (without_a_provider_key,), "A mail goes out twice"),
        Mistake("the mail in the transaction", (mail_in_the_transaction,), "A mail goes out twice"),
        Mistake("the stock without a key", (without_a_key_for_the_stock,), "the stock is not"),
        Mistake("complete in a transaction of its own", (completed_after_the_stock,), "the stock is not"),
        Mistake("one key for two orders", (the_key_of_the_product,), "both orders have one key"),
        Mistake("does nothing", (does_nothing,), "your flow returned before it had done it"),
        Mistake("leaves when the lock is busy", (leaves_when_it_is_busy,), "your flow returned before it had done it"),
        Mistake("one key for all mails", (one_key_for_all_mails,), "so their mails are one"),
        Mistake("no commit", (no_commit,), "who commits?"),
        Mistake("deleted on in progress", (in_progress_is_done,), "was in progress, and somebody took that for done"),
        Mistake("completed before the effect", (completed_before_the_mail,), "Complete it last"),
    ],
)
