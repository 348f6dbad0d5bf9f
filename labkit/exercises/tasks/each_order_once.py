"""Exercise: state the property that no order is lost, and none is done twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.orders import shop, staff
from labkit.exercises.write_property import Program, WriteProperty
from labkit.idempotency import ProcessedEvents, effect_key, transaction
from labkit.lab import Lab, Service

ORDERS = ("order-1", "order-2")

Handler = Callable[[Any, Service, str], None]


def build(handler: Handler, lab: Lab) -> tuple[Service, tuple[str, ...]]:
    """Two orders, A and B, and a worker that comes later."""
    db = shop(lab, ORDERS)
    ProcessedEvents(db).create()
    mail = lab.service("mailer", deduplicates=True)
    staff(lab, lambda: partial(handler, lab.sql(), mail), "AB", looks=2)
    return mail, ORDERS


def keyed(db: Any, mail: Service, order: str) -> None:
    """The mail service is given the key of the effect."""
    mail.send(order, idempotency_key=effect_key(order, "confirm"))


def unkeyed(db: Any, mail: Service, order: str) -> None:
    """The mail service is given no key."""
    mail.send(order)


def key_before_effect(db: Any, mail: Service, order: str) -> None:
    """The key is committed, then the mail is sent."""
    with transaction(db):
        first = ProcessedEvents(db).claim(effect_key(order, "confirm"))
    if first:
        keyed(db, mail, order)


def first_order_for_both(db: Any, mail: Service, order: str) -> None:
    """Someone has mixed up two variables."""
    mail.send(ORDERS[0])


def twice(ordered: str) -> Program:
    """One of the two orders is mailed twice."""

    def handler(db: Any, mail: Service, order: str) -> None:
        keyed(db, mail, order)
        if order == ordered:
            mail.send(order)

    return Program(
        partial(build, handler),
        f"The mail of {ordered} goes out twice, and your property is content. Does it look at each order? A function "
        "made in a loop sees the loop's last value.",
    )


def starter(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.always("not too many mails", lambda: mail.count() <= len(orders))


def solution(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.always("no order twice", lambda: all(mail.count(order) <= 1 for order in orders))
    lab.at_end("no order lost", lambda: all(mail.count(order) >= 1 for order in orders))


# ---- mistakes


def total_at_the_end(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.at_end("as many mails as orders", lambda: mail.count() == len(orders))


def never_twice_alone(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.always("at most one mail for each order", lambda: all(mail.count(order) <= 1 for order in orders))


def never_lost_alone(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.at_end("a mail for each order", lambda: all(mail.count(order) >= 1 for order in orders))


def always_exactly_one(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.always("one mail for each order", lambda: all(mail.count(order) == 1 for order in orders))


def the_first_order_alone(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    lab.at_end("mailed once", lambda: mail.count("order-1") == 1)


def the_last_order_alone(lab: Lab, mail: Service, orders: tuple[str, ...]) -> None:
    for order in orders:
        lab.at_end(f"{order} is mailed once", lambda: mail.count(order) == 1)  # noqa: B023


each_order_once = WriteProperty(
    "each_order_once",
    "Write my_properties(lab, mail, orders): catch an order that is lost, and one whose mail goes out twice.",
    names=["my_properties"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "There are two ways to be wrong: never, and twice. One of them can be seen at any moment, the other at the end "
        "only.",
        "`mail.count(order)` counts the mails of one order, `mail.count()` those of all. Which one is fooled when one "
        "order is mailed twice, and the other never?",
        '`lab.always("no order twice", lambda: all(mail.count(order) <= 1 for order in orders))`, and `lab.at_end` '
        "with another name and `>= 1`.",
    ),
    sound=Program(
        partial(build, keyed),
        "Your property refuses a program that is right. While it runs, an order's mail has not gone out yet: what must "
        "hold always, and what in the end?",
        {"crashes": 1},
    ),
    mutants=[
        Program(
            partial(build, unkeyed),
            "A mail that goes out twice slips through: a worker may die after its mail, and its order is done again.",
            {"crashes": 1},
        ),
        Program(
            partial(build, key_before_effect),
            "A lost order slips through: here a worker may die between the key and the mail.",
            {"crashes": 1},
        ),
        Program(
            partial(build, first_order_for_both),
            "One order is mailed twice and the other never, and your property is content: the total is right.",
        ),
        *map(twice, ORDERS),
    ],
    praise="No order lost, no order twice.",
    mistakes=[
        Mistake("the total, and never lost", (starter,), "slips through"),
        Mistake("the total at the end", (total_at_the_end,), "the total is right"),
        Mistake("twice alone", (never_twice_alone,), "A lost order slips through"),
        Mistake("lost alone", (never_lost_alone,), "A mail that goes out twice slips through"),
        Mistake("exactly one, always", (always_exactly_one,), "refuses a program that is right"),
        Mistake("the first order alone", (the_first_order_alone,), "The mail of order-2 goes out twice"),
        Mistake("a loop's last order", (the_last_order_alone,), "sees the loop's last value"),
    ],
)
