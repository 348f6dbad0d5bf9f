"""Exercise: kill a worker at the moment at which its order is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.orders import DEDUCT, shop, sold, staff
from labkit.exercises.write_schedule import WriteSchedule
from labkit.idempotency import transaction
from labkit.lab import Lab

DONE = "the stock is deducted in the end"
INSERT = "INSERT INTO done (effect_key) VALUES (?) ON CONFLICT DO NOTHING"


def key_first(db: Any, order: str) -> None:
    """Commit the key; go on only if the insert won."""
    with transaction(db):
        first = db.execute(INSERT, (f"{order}:deduct",)).rowcount == 1
    if first:
        with transaction(db):
            db.execute(DEDUCT)


def key_before_effect(lab: Lab) -> None:
    """One order; A, and a worker that comes 30 seconds later."""
    db = shop(lab, ["order-1"])
    db.execute("CREATE TABLE done (effect_key TEXT PRIMARY KEY)")
    staff(lab, lambda: partial(key_first, lab.sql()))
    lab.always("the stock is deducted at most once", lambda: sold(db) <= 1)
    lab.at_end(DONE, lambda: sold(db) >= 1)


ALL_OF_A = "A A A A A A A"
ALL_OF_LATER = "clock later later later"

lose_the_order = WriteSchedule(
    "lose_the_order",
    "Kill A at the moment at which its order is lost: nobody deducts the stock, and the message is gone.",
    names=["losing"],
    starter=(f"{ALL_OF_A} {ALL_OF_LATER}",),
    solution=("A A A A crash:A clock later later later later later later",),
    hints=(
        "Which step of A makes the key visible to others, and which one makes the effect visible?",
        "A has seven steps: clock, receive, INSERT, COMMIT, UPDATE, COMMIT, delete. The key counts from the first "
        "COMMIT on, the effect from the second.",
        "`A A A A crash:A`, then `clock` until the message is back, then `later` until it has deleted the message.",
    ),
    scenario=key_before_effect,
    breaks=DONE,
    crashes=1,
    missed="Nothing is lost: the stock was deducted once. Which two steps of A must the crash fall between?",
    praise="Lost. The key says that it was done, and nobody ever asks again.",
    mistakes=[
        Mistake("nobody is killed", (f"{ALL_OF_A} {ALL_OF_LATER}",), "Nothing is lost"),
        Mistake(
            "killed before the commit",
            ("A A A crash:A clock later later later later later later later later",),
            "Nothing is lost",
        ),
        Mistake(
            "killed after the effect", (f"A A A A A A crash:A {ALL_OF_LATER} later later later",), "Nothing is lost"
        ),
        Mistake("stopped too early", ("A A A A crash:A",), "can still go on"),
        Mistake("a second crash", ("A A A A crash:A clock crash:later",), "This order cannot be"),
    ],
)
