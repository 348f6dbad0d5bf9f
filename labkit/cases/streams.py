"""Entries of streams that are delivered to nobody any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from labkit import Lab
from labkit.cases.case import Case, in_both

STREAM, GROUP = "events", "workers"
IDLE = 60  # seconds after which what is pending counts as left behind


def claim(r: Any, consumer: str) -> list[Any]:
    """Entries that have been pending for long."""
    entries: list[Any] = r.xautoclaim(STREAM, GROUP, consumer, IDLE * 1000)[1]
    return entries


def read(r: Any, consumer: str) -> list[Any]:
    """An entry that was never delivered, if there is one."""
    found = r.xreadgroup(GROUP, consumer, {STREAM: ">"}, count=1)
    return found[0][1] if found else []


def with_an_entry(lab: Lab) -> None:
    """A stream with one entry, and its group."""
    r = lab.redis()
    r.xadd(STREAM, {"event": "order-1"}, id="1-0")
    r.xgroup_create(STREAM, GROUP, "0")


# ---- P21: what is not acknowledged stays pending


def publish(lab: Lab, r: Any, consumer: str, arrives: float, fixed: bool) -> None:
    """Publish an event, and acknowledge it."""
    if arrives:
        time.sleep(arrives)
    for entry, fields in (fixed and claim(r, consumer)) or read(r, consumer):
        lab.events.publish(fields["event"])
        r.xack(STREAM, GROUP, entry)


def consumers(lab: Lab, fixed: bool) -> None:
    """A may die; B looks a minute later."""
    with_an_entry(lab)
    for name, arrives in (("A", 0), ("B", IDLE)):
        lab.worker(name, publish, lab, lab.redis(decode_responses=True), name, arrives, fixed, spared=name == "B")
    lab.at_end("each event is published", lambda: lab.events.count("order-1") >= 1)


P21 = Case(
    "P21",
    "openlinker: what is not acknowledged in a stream is not delivered again",
    ("https://github.com/openlinker-project/openlinker/issues/2164",),
    "All consumers ask for new entries (`>`); what a dead one had read stays pending, and nobody ever claims it.",
    "Each consumer now and then claims what has been pending for longer than any job takes (XAUTOCLAIM).",
    *in_both(consumers),
    budgets={"crashes": 1},
)


# ---- P22: an entry that is to be tried again


def ack_then_add(pipe: Any, entry: str, fields: dict[str, str]) -> None:
    """As it was."""
    pipe.xack(STREAM, GROUP, entry).xdel(STREAM, entry).xadd(STREAM, fields)


def add_then_ack(pipe: Any, entry: str, fields: dict[str, str]) -> None:
    """The other way round."""
    pipe.xadd(STREAM, fields).xack(STREAM, GROUP, entry).xdel(STREAM, entry)


Requeue = Callable[[Any, str, dict[str, str]], None]


def try_again(r: Any, requeue: Requeue, transaction: bool) -> None:
    """Read an entry, fail to handle it, and put it back at the end."""
    for entry, fields in read(r, "A"):
        with r.pipeline(transaction=transaction) as pipe:
            requeue(pipe, entry, fields)
            pipe.execute()


def handle(lab: Lab, r: Any) -> None:
    """A minute later, handle what was left behind, or what is new."""
    time.sleep(IDLE)
    for _, fields in claim(r, "B") or read(r, "B"):
        lab.events.publish(fields["event"])


def requeueing(lab: Lab, requeue: Requeue = ack_then_add, transaction: bool = False) -> None:
    """A may die while it puts an entry back.

    Parameters
    ----------
    requeue: what A sends, in this order.
    transaction: whether Redis executes it as a whole.
    """
    with_an_entry(lab)
    lab.worker("A", try_again, lab.redis(decode_responses=True), requeue, transaction)
    lab.worker("B", handle, lab, lab.redis(decode_responses=True), spared=True)
    lab.at_end("each event is handled", lambda: lab.events.count("order-1") >= 1)


P22 = Case(
    id="P22",
    title="svix, taskq: acknowledged, and then added again, in a pipeline",
    sources=("https://github.com/svix/svix-webhooks/pull/569", "https://github.com/vmihailenco/taskq/pull/41"),
    mechanism="A pipeline is no transaction: after XACK and XDEL and before XADD, the entry is nowhere.",
    fix="MULTI and EXEC around the three; or XADD first, which can leave two of it but never none.",
    broken=requeueing,
    fixed=lambda lab: requeueing(lab, transaction=True),
    budgets={"crashes": 1},
)
