"""Exercise: build the world around a handler that charges orders: its bugs are to be caught, a sound one accepted."""

from __future__ import annotations

from collections.abc import Callable

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_scenario import Trial, WriteScenario
from labkit.lab import Lab, Service
from labkit.verdict import Verdict

Charge = Callable[[redis.Redis, Service, str], object]


def keyed(r: redis.Redis, payments: Service, order: str) -> None:
    """Sound: the provider is told the key of the effect."""
    if not r.get(f"paid:{order}"):
        payments.call(order, idempotency_key=order)
        r.set(f"paid:{order}", "yes")


def keyless(r: redis.Redis, payments: Service, order: str) -> None:
    """Looks, charges, and marks."""
    if not r.get(f"paid:{order}"):
        payments.call(order)
        r.set(f"paid:{order}", "yes")


def one_mark_for_all(r: redis.Redis, payments: Service, order: str) -> None:
    """Has forgotten to put the order into its key."""
    if not r.get("paid"):
        payments.call(order, idempotency_key=order)
        r.set("paid", "yes")


def marks_first(r: redis.Redis, payments: Service, order: str) -> None:
    """Marks before it charges."""
    if r.set(f"paid:{order}", "yes", nx=True):
        payments.call(order, idempotency_key=order)


def why_rejected(verdict: Verdict) -> str:
    """What to look at when the sound handler is rejected."""
    if verdict.stopped is not None:
        return "Your world has too many orders of steps to search them all: two workers with one order are enough."
    trace = next(iter(verdict.violations.values()), None)
    if trace is None:
        return "No execution comes to an end in your world. Which worker waits, and what for?"
    if any(event.kind == "crash" for event in trace.events) and trace.violations[0].at_end:
        return (
            "You reject a sound handler: the one worker that had this order was killed, and nobody delivers it again. "
            "Give the order to a second worker, or say spared=True."
        )
    charges = [event for event in trace.events if event.kind == "call"]
    if len(charges) > 1 and all(event.reply == "done" for event in charges):
        return (
            "You reject a sound handler. It sends a key along, and your provider charges twice all the same. "
            "Does a real one? See deduplicates."
        )
    if trace.violations[0].at_end:
        return f"You reject a sound handler: in the end {trace.violations[0].property!r} is false. What does it count?"
    return (
        "You reject a sound handler. At the start nothing is charged yet: which of your properties holds only at_end?"
    )


def why_not_raced(verdict: Verdict) -> str:
    """What to look at when the handler that charges twice is accepted."""
    if verdict.bounds.workers == 1:
        return "You accept a handler that charges twice. One worker has nobody to race with: add a second one."
    return (
        "You accept a handler that charges twice. Do two workers get the same order, and does a property count its "
        "charges?"
    )


def why_not_lost(verdict: Verdict) -> str:
    """What to look at when the handler that loses an order is accepted."""
    if len(verdict.bounds.spared) == verdict.bounds.workers:
        return (
            "You accept a handler that loses an order: it marks, and is killed. In your world nobody can be killed, "
            "since every worker is spared."
        )
    return (
        "You accept a handler that loses an order: it marks, is killed, and the next worker believes the mark. Who "
        "says that 42 must be charged in the end?"
    )


def starter(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    lab.worker("A", handle, lab.redis(), payments, "42")
    lab.at_end("42 is charged once", lambda: payments.count("42") == 1)


def solution(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name in "AB":
        lab.worker(name, handle, lab.redis(), payments, "42")
    lab.worker("C", handle, lab.redis(), payments, "43", spared=True)
    lab.always("42 is charged at most once", lambda: payments.count("42") <= 1)
    lab.at_end("42 is charged", lambda: payments.count("42") >= 1)
    lab.at_end("43 is charged", lambda: payments.count("43") >= 1)


# ---- mistakes


def nothing_stated(lab: Lab, handle: Charge) -> None:
    lab.worker("A", handle, lab.redis(), lab.service("payments", deduplicates=True), "42")


def two_orders_only(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name, order in (("A", "42"), ("B", "43")):
        lab.worker(name, handle, lab.redis(), payments, order)
    lab.at_end("charged", lambda: payments.count("42") == payments.count("43") == 1)


def one_order_only(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name in "AB":
        lab.worker(name, handle, lab.redis(), payments, "42")
    lab.at_end("charged once", lambda: payments.count("42") == 1)


def never_in_the_end(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name, order in (("A", "42"), ("B", "42"), ("C", "43")):
        lab.worker(name, handle, lab.redis(), payments, order, spared=name == "C")
    lab.always("at most once", lambda: payments.count("42") <= 1)
    lab.at_end("43 is charged", lambda: payments.count("43") == 1)


def not_spared(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name, order in (("A", "42"), ("B", "42"), ("C", "43")):
        lab.worker(name, handle, lab.redis(), payments, order)
    lab.at_end("charged", lambda: payments.count("42") == payments.count("43") == 1)


def forgetful_provider(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments")
    for name in "AB":
        lab.worker(name, handle, lab.redis(), payments, "42")
    lab.always("at most once", lambda: payments.count("42") <= 1)


def too_early(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name in "AB":
        lab.worker(name, handle, lab.redis(), payments, "42")
    lab.always("exactly one", lambda: payments.count("42") == 1)


def all_spared(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name, order in (("A", "42"), ("B", "42"), ("C", "43")):
        lab.worker(name, handle, lab.redis(), payments, order, spared=True)
    lab.at_end("charged", lambda: payments.count("42") == payments.count("43") == 1)


def counts_the_total(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name in "AB":
        lab.worker(name, handle, lab.redis(), payments, "42")
    lab.at_end("two are charged", lambda: payments.count() == 2)


def too_many(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    for name in "ABCDEFGH":
        lab.worker(name, handle, lab.redis(), payments, f"4{ord(name) // 2}")
    lab.at_end("charged", lambda: payments.count() == 5)


def wrong_arguments(lab: Lab, handle: Charge) -> None:
    payments = lab.service("payments", deduplicates=True)
    lab.worker("A", handle, lab.redis(), payments)
    lab.at_end("charged", lambda: payments.count("42") == 1)


build_the_world = WriteScenario(
    "build_the_world",
    "Write my_scenario(lab, handle): workers that call handle(r, payments, order), and what must hold of the charges.",
    names=["my_scenario"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "Three things go wrong in handlers: one job twice, one job never, and two jobs that get in each other's way.",
        "Two workers with order 42, one with order 43. What must never be, and what must have happened in the end?",
        "Charges of 42: always at most 1. At the end: 42 and 43 at least 1. The worker with 43 is spared=True.",
    ),
    trials=[
        Trial(keyed, True, why_rejected),
        Trial(keyless, False, why_not_raced),
        Trial(
            one_mark_for_all,
            False,
            "You accept a handler that keeps one mark for all orders: after the first it charges nobody. How many "
            "orders are there in your world, and must each be charged?",
        ),
        Trial(keyed, True, why_rejected, {"crashes": 1}),
        Trial(
            marks_first,
            False,
            why_not_lost,
            {"crashes": 1},
        ),
    ],
    praise="Two workers with one order make the race, another order shows what is shared by mistake, and the crash "
    "asks who finishes the job.",
    mistakes=[
        Mistake("no property", (nothing_stated,), "No property is stated"),
        Mistake("one worker", (starter,), "nobody to race with"),
        Mistake("no order twice", (two_orders_only,), "Do two workers get the same order"),
        Mistake("one order only", (one_order_only,), "one mark for all orders"),
        Mistake("nothing says that it must be done", (never_in_the_end,), "loses an order"),
        Mistake("the only worker of an order is killed", (not_spared,), "nobody delivers it again"),
        Mistake("a provider that knows no keys", (forgetful_provider,), "See deduplicates"),
        Mistake("everybody is spared", (all_spared,), "every worker is spared"),
        Mistake("a false total", (counts_the_total,), "in the end 'two are charged' is false"),
        Mistake("too many workers", (too_many,), "too many orders of steps"),
        Mistake("exactly one, always", (too_early,), "holds only at_end"),
        Mistake("an argument is missing", (wrong_arguments,), "What do you call the code with"),
    ],
)
