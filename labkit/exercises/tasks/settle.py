"""Exercise: settle a message by what became of its job: done, later, or never."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.queues import Message, VisibilityQueue
from labkit.trace import Trace

OUTAGE, DELIVERIES = 8, 5

CHARGED = "the order is charged"
ONCE = "the order is charged at most once"
GONE = "the message is deleted in the end"
PATIENT = "an order that can be charged is no dead letter"
KEPT = "an order that cannot be charged is always somewhere"
EACH = "each of two orders is charged"
BURIED = "an order that cannot be charged is a dead letter in the end"

Charge = Callable[[str, str], object]
Handle = Callable[[VisibilityQueue, Message, Charge, VisibilityQueue], object]


def _work(queue: VisibilityQueue, payments: Service, handle: Handle, outage: float, wait: float, jobs: int) -> None:
    """Handle so many deliveries; payments are down for so many seconds after the message was sent."""
    if wait:
        time.sleep(wait)
    for _ in range(jobs):
        for message in queue.receive(wait=20):

            def charge(order: str, idempotency_key: str, sent_at: float = message.sent_at or 0) -> None:
                if not isinstance(order, str):
                    raise TypeError(f"an order to charge is message.body['order'], not {order!r}")
                if order == "unknown":
                    raise ValueError("there is no such order")
                if outage and time.time() < sent_at + outage:
                    raise ConnectionError("payments are down")
                payments.call(order, idempotency_key=str(idempotency_key))

            handle(queue, message, charge, queue.dead_letters)


def _world(lab: Lab, handle: Handle, *orders: str, outage: float = 0, jobs: int = 1) -> tuple[VisibilityQueue, Service]:
    """A, which may die, and B, which comes a minute later and is spared."""
    queue = VisibilityQueue.create(lab.redis(), "orders", max_receive_count=DELIVERIES)
    for order in orders:
        queue.send({"order": order})
    lab.deadlines(queue.deadlines)
    payments = lab.service("payments", deduplicates=True)
    for name, wait in (("A", 0), ("B", 60)):
        own = VisibilityQueue(lab.redis(), "orders")
        lab.worker(name, _work, own, payments, handle, outage, wait, jobs, spared=name == "B")
    return queue, payments


def good(handle: Handle) -> Scenario:
    """An order that can be charged, and a worker that may die."""

    def good_order(lab: Lab) -> None:
        queue, payments = _world(lab, handle, "ord-123")
        lab.always(ONCE, lambda: payments.count("ord-123") <= 1)
        lab.at_end(CHARGED, lambda: payments.count("ord-123") >= 1)
        lab.at_end(GONE, lambda: not queue.deadlines())

    return good_order


def two(handle: Handle) -> Scenario:
    """Two orders that can be charged."""

    def two_orders(lab: Lab) -> None:
        _, payments = _world(lab, handle, "ord-123", "ord-124")
        lab.at_end(EACH, lambda: payments.count("ord-123") == payments.count("ord-124") == 1)

    return two_orders


def down(handle: Handle) -> Scenario:
    """Payments are down for eight seconds."""

    def payments_are_down(lab: Lab) -> None:
        queue, payments = _world(lab, handle, "ord-123", outage=OUTAGE, jobs=DELIVERIES)
        lab.always(PATIENT, lambda: not queue.dead_letters.deadlines())
        lab.at_end(CHARGED, lambda: payments.count("ord-123") == 1)

    return payments_are_down


def bad(handle: Handle) -> Scenario:
    """An order that can never be charged, and a worker that may die."""

    def bad_order(lab: Lab) -> None:
        queue, _ = _world(lab, handle, "unknown")
        lab.always(KEPT, lambda: bool(queue.deadlines() or queue.dead_letters.deadlines()))
        lab.at_end(BURIED, lambda: bool(queue.dead_letters.deadlines()))
        lab.at_end(GONE, lambda: not queue.deadlines())

    return bad_order


def why_not_charged(trace: Trace) -> str:
    """What to look at when nobody was charged although nothing is wrong with the order."""
    if any("'delete'" in event.text for event in trace.events):
        return "The message is gone, and nobody was charged. When is it safe to delete?"
    return "Nobody was charged, and the message is still there. Do you call charge(order, key), and hear its errors?"


def why_impatient(trace: Trace) -> str:
    """What to look at when an order that can be charged is buried."""
    brought = [event.time / 1e6 for event in trace.events if "'receive'" in event.text and "order" in event.reply]
    if len(brought) == DELIVERIES:
        return (
            "Given back too soon, it comes back too soon: the last of its five deliveries came after "
            f"{brought[-1]:g} s, and the queue buries it. Payments were down for {OUTAGE} s."
        )
    return "Payments were down for eight seconds, and you gave the order up. Which errors pass by themselves?"


def starter(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    queue.delete(message.receipt_handle)
    charge(message.body["order"], "a key")


def solution(queue: VisibilityQueue, message: Any, charge: Charge, dead_letters: VisibilityQueue) -> None:
    try:
        charge(message.body["order"], message.id)
    except ConnectionError:
        queue.change_visibility(message.receipt_handle, 2**message.receive_count)
    except ValueError:
        dead_letters.send(message.body)
        queue.delete(message.receipt_handle)
    else:
        queue.delete(message.receipt_handle)


# ---- mistakes


def _settled(
    queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue, key: str, wait: float
) -> None:
    try:
        charge(message.body["order"], key)
    except ConnectionError:
        queue.change_visibility(message.receipt_handle, wait)
    except ValueError:
        dead_letters.send(message.body)
        queue.delete(message.receipt_handle)
    else:
        queue.delete(message.receipt_handle)


def catches_nothing(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    charge(message.body["order"], str(message.id))
    queue.delete(message.receipt_handle)


def one_key_for_all(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    _settled(queue, message, charge, dead_letters, "a key", 10)


def does_nothing(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    pass


def after_a_second(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    _settled(queue, message, charge, dead_letters, str(message.id), 1)


def charges_the_body(queue: VisibilityQueue, message: Message, charge: Any, dead_letters: VisibilityQueue) -> None:
    charge(message.body, message.id)
    queue.delete(message.receipt_handle)


def new_key(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    _settled(queue, message, charge, dead_letters, message.receipt_handle, 10)


def at_once(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    _settled(queue, message, charge, dead_letters, str(message.id), 0)


def buries_all(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    try:
        charge(message.body["order"], str(message.id))
    except (ConnectionError, ValueError):
        dead_letters.send(message.body)
    queue.delete(message.receipt_handle)


def acks_all(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    with suppress(ConnectionError, ValueError):
        charge(message.body["order"], str(message.id))
    queue.delete(message.receipt_handle)


def never_acks(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    charge(message.body["order"], str(message.id))


def deletes_by_id(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    charge(message.body["order"], str(message.id))
    queue.delete(str(message.id))


def gives_all_back(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    try:
        charge(message.body["order"], str(message.id))
        queue.delete(message.receipt_handle)
    except (ConnectionError, ValueError):
        queue.change_visibility(message.receipt_handle, 10)


def deletes_first(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    try:
        charge(message.body["order"], str(message.id))
        queue.delete(message.receipt_handle)
    except ConnectionError:
        queue.change_visibility(message.receipt_handle, 10)
    except ValueError:
        queue.delete(message.receipt_handle)
        dead_letters.send(message.body)


def keeps_a_copy(queue: VisibilityQueue, message: Message, charge: Charge, dead_letters: VisibilityQueue) -> None:
    try:
        charge(message.body["order"], str(message.id))
        queue.delete(message.receipt_handle)
    except ConnectionError:
        queue.change_visibility(message.receipt_handle, 10)
    except ValueError:
        dead_letters.send(message.body)


settle = WriteProgram(
    "settle",
    "Write my_handle(queue, message, charge, dead_letters): charge the order, and settle its message: delete it, give "
    "it back for later, or make it a dead letter.",
    names=["my_handle"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "Three ends: it worked; it may work later (ConnectionError); it will never work (ValueError). What becomes of "
        "the message in each?",
        "`queue.change_visibility(receipt_handle, seconds)` gives it back for later. `message.id` is a key that is the "
        "same for each attempt. Delete last.",
        "try: charge. except ConnectionError: change_visibility to 2 ** message.receive_count seconds. "
        "except ValueError: send the body to dead_letters, then delete. else: delete.",
    ),
    worlds=[
        World(
            good,
            {
                ONCE: "Charged twice. A died after the charge; B had the same message, and which key did it send?",
                CHARGED: why_not_charged,
                GONE: "Charged, and the message is still there: it comes back, again and again. Who deletes it?",
            },
            {"crashes": 1},
        ),
        World(
            two,
            {EACH: "Two orders, and only one was charged: payments saw the same key again. What is your key made of?"},
        ),
        World(
            down,
            {
                PATIENT: why_impatient,
                CHARGED: "Payments were down for eight seconds, and the order is never charged. Where is its message?",
            },
        ),
        World(
            bad,
            {
                KEPT: "The message is deleted, and the order is nowhere. In which order do you send and delete?",
                BURIED: "This order can never be charged, and it comes back and back. Who is to look at it?",
                GONE: "It is a dead letter, and it is still in the queue as well.",
            },
            {"crashes": 1},
        ),
    ],
    praise="Done, later, or never: each end has its own settlement, and no crash loses an order.",
    mistakes=[
        Mistake("ack before the effect", (starter,), "When is it safe to delete"),
        Mistake("another key for each attempt", (new_key,), "which key did it send"),
        Mistake("never deletes", (never_acks,), "Who deletes it"),
        Mistake("deletes by id, and not by receipt", (deletes_by_id,), "raised ReceiptHandleIsInvalid"),
        Mistake("no error is caught", (catches_nothing,), "it is no race"),
        Mistake("gives back at once", (at_once,), "five deliveries came after 0 s"),
        Mistake("gives back after a second", (after_a_second,), "five deliveries came after 4 s"),
        Mistake("one key for all orders", (one_key_for_all,), "payments saw the same key again"),
        Mistake("charges nobody", (does_nothing,), "and the message is still there"),
        Mistake("charges the body", (charges_the_body,), "message.body['order']"),
        Mistake("buries every failure", (buries_all,), "Which errors pass by themselves"),
        Mistake("deletes whatever happened", (acks_all,), "Where is its message"),
        Mistake("retries what cannot work", (gives_all_back,), "Who is to look at it"),
        Mistake("deletes, then buries", (deletes_first,), "In which order"),
        Mistake("buries, and deletes not", (keeps_a_copy,), "still in the queue as well"),
    ],
)
