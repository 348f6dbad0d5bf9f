"""Exercise: deduct the stock of an order once, however often its message comes."""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.orders import DEDUCT, shop, sold, staff
from labkit.exercises.write_program import World, WriteProgram
from labkit.idempotency import ProcessedEvents, effect_key, transaction
from labkit.lab import Lab, Scenario
from labkit.trace import Trace

DONE = "the stock is deducted in the end"
TWICE = "the stock is deducted at most once"
KEPT = "one key is kept"
EACH = "the stock is deducted once for each order"

DeductStock = Callable[[Any, str], object]


def world(deduct_stock: DeductStock, copies: int = 1, at_once: str = "A", looks: int = 1) -> Scenario:
    """Some messages for one order, and workers with the learner's handler."""

    def deduct_once(lab: Lab) -> None:
        db = shop(lab, ["order-1"] * copies)
        ProcessedEvents(db).create()
        staff(lab, lambda: partial(deduct_stock, lab.sql()), at_once, looks)
        lab.always(TWICE, lambda: sold(db) <= 1)
        lab.at_end(DONE, lambda: sold(db) >= 1)
        lab.at_end(KEPT, lambda: db.execute("SELECT COUNT(*) FROM processed_events").fetchone() == (1,))

    return deduct_once


def alone(deduct_stock: DeductStock) -> Scenario:
    """One message, one delivery, nothing goes wrong."""
    return world(deduct_stock)


def with_a_crash(deduct_stock: DeductStock) -> Scenario:
    """One message, whose worker may die or be paused."""
    return world(deduct_stock, looks=2)


def sent_twice(deduct_stock: DeductStock) -> Scenario:
    """Two messages for one order, at once."""
    return world(deduct_stock, copies=2, at_once="AB")


def two_orders(deduct_stock: DeductStock) -> Scenario:
    """Two orders, one after the other."""

    def deduct_both(lab: Lab) -> None:
        db = shop(lab, ["order-1", "order-2"])
        ProcessedEvents(db).create()
        staff(lab, lambda: partial(deduct_stock, lab.sql()))
        lab.at_end(EACH, lambda: sold(db) == 2)

    return deduct_both


def why_not_done(trace: Trace) -> str:
    """What to look at when nothing is deducted although nothing goes wrong."""
    if not any(event.text.startswith("UPDATE") for event in trace.events):
        return "One worker, one message, nothing goes wrong, and nobody deducts: no UPDATE of the stock is sent."
    return "One worker, one message, nothing goes wrong, and the stock is not deducted. Who commits?"


def why_twice(trace: Trace) -> str:
    """What to look at when the stock is deducted twice."""
    texts = [event.text for event in trace.events if event.store == "sql"]
    keys = set(re.findall(r"INSERT INTO processed_events .*VALUES \('([^']*)'", "\n".join(texts)))
    if len(keys) > 1:
        return f"The stock is deducted twice, under two keys, {' and '.join(sorted(keys))}: attempts need the same key."
    if any(text.startswith("SELECT") for text in texts):
        return "The stock is deducted twice. Both workers asked before either had inserted: who tells you that you won?"
    if any("0 rows" in event.reply and event.text.startswith("INSERT") for event in trace.events):
        return "The stock is deducted twice. The second claim answered False: 0 rows were inserted. Who listened?"
    return "The stock is deducted twice, the second time before any key was seen: the effect comes before its key."


def starter(db: Any, order: str) -> None:
    with transaction(db):
        db.execute(DEDUCT)


def solution(db: Any, order: str) -> None:
    with transaction(db):
        if ProcessedEvents(db).claim(effect_key(order, "deduct")):
            db.execute(DEDUCT)


# ---- mistakes


def key_first(db: Any, order: str) -> None:
    with transaction(db):
        first = ProcessedEvents(db).claim(effect_key(order, "deduct"))
    if first:
        with transaction(db):
            db.execute(DEDUCT)


def effect_first(db: Any, order: str) -> None:
    with transaction(db):
        db.execute(DEDUCT)
    with transaction(db):
        ProcessedEvents(db).claim(effect_key(order, "deduct"))


def nobody_listens(db: Any, order: str) -> None:
    with transaction(db):
        ProcessedEvents(db).claim(effect_key(order, "deduct"))
        db.execute(DEDUCT)


def check_then_insert(db: Any, order: str) -> None:
    key = effect_key(order, "deduct")
    if db.execute("SELECT 1 FROM processed_events WHERE effect_key = ?", (key,)).fetchone() is None:
        nobody_listens(db, order)


def a_key_for_each_moment(db: Any, order: str) -> None:
    with transaction(db):
        if ProcessedEvents(db).claim(effect_key(order, str(time.time()))):
            db.execute(DEDUCT)


def waits_at_random(db: Any, order: str) -> None:
    time.sleep(random.random())
    check_then_insert(db, order)


def a_key_for_each_attempt(db: Any, order: str) -> None:
    with transaction(db):
        if ProcessedEvents(db).claim(effect_key(order, uuid.uuid4().hex[:4])):
            db.execute(DEDUCT)


def no_commit(db: Any, order: str) -> None:
    if ProcessedEvents(db).claim(effect_key(order, "deduct")):
        db.execute(DEDUCT)


def claims_and_does_nothing(db: Any, order: str) -> None:
    with transaction(db):
        ProcessedEvents(db).claim(effect_key(order, "deduct"))


def one_key_for_all(db: Any, order: str) -> None:
    with transaction(db):
        if ProcessedEvents(db).claim("deduct"):
            db.execute(DEDUCT)


def sets_the_stock(db: Any, order: str) -> None:
    with transaction(db):
        if ProcessedEvents(db).claim(effect_key(order, "deduct")):
            db.execute("UPDATE stock SET sold = 1")


deduct_once = WriteProgram(
    "deduct_once",
    "Write my_handler(db, order): deduct the stock once for each order, however often it is called and wherever a "
    "worker dies.",
    names=["my_handler"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "No order of two commits is safe. How many commits does your handler make?",
        "`ProcessedEvents(db).claim(key)` inserts a row and says whether it was the first to do so. "
        "The row is there for others from the commit on, and vanishes when the transaction is undone.",
        'One `with transaction(db):`. In it, `if ProcessedEvents(db).claim(effect_key(order, "deduct")):`, '
        "and in that, `db.execute(DEDUCT)`.",
    ),
    worlds=[
        World(
            alone,
            {
                DONE: why_not_done,
                KEPT: "Nothing is noted: processed_events has no key of this order, so a second delivery cannot know "
                "of the first.",
                TWICE: "One delivery, and the stock is deducted twice.",
            },
        ),
        World(
            two_orders,
            {
                EACH: "Two orders, and the stock is not deducted once for each. What are your key, and your UPDATE, "
                "made of?"
            },
        ),
        World(
            sent_twice,
            {
                TWICE: why_twice,
                DONE: "In the end nothing was deducted.",
                KEPT: "Two messages for one order, and two keys: attempts need the same key.",
            },
            wakes=True,
        ),
        World(
            with_a_crash,
            {
                DONE: "The order is lost: its key was committed, its effect was not, and the next delivery found the "
                "key.",
                TWICE: why_twice,
                KEPT: "In the end there is not one key for the order.",
            },
            {"crashes": 1, "pauses": 1},
        ),
    ],
    praise="Key and effect are there together, or not at all.",
    mistakes=[
        Mistake("no key", (starter,), "Nothing is noted"),
        Mistake("key before effect", (key_first,), "The order is lost: its key was committed"),
        Mistake("effect before key", (effect_first,), "the effect comes before its key"),
        Mistake("nobody looks at the answer", (nobody_listens,), "Who listened?"),
        Mistake("check, then insert", (check_then_insert,), "who tells you that you won?"),
        Mistake("a key for each moment", (a_key_for_each_moment,), "under two keys"),
        Mistake("a wait at random", (waits_at_random,), "only makes it rare"),
        Mistake("a key for each attempt", (a_key_for_each_attempt,), "under two keys"),
        Mistake("no commit", (no_commit,), "Who commits?"),
        Mistake("no effect", (claims_and_does_nothing,), "no UPDATE of the stock is sent"),
        Mistake("one key for all orders", (one_key_for_all,), "What are your key, and your UPDATE, made of?"),
        Mistake("sets the stock, and does not add", (sets_the_stock,), "What are your key, and your UPDATE"),
    ],
)
