"""Exercise: send one mail, however the steps of two workers mix."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_program import World, WriteProgram
from labkit.lab import Lab, Scenario, Service
from labkit.trace import Trace

ONCE = "at most one mail"
SENT = "the customer gets a mail"

SendReceipt = Callable[[redis.Redis, Service], object]


def world(send_receipt: SendReceipt) -> Scenario:
    """Two workers that got the same order."""

    def two_receipts(lab: Lab) -> None:
        for name in "AB":
            lab.worker(name, send_receipt, lab.redis(), lab.mail)
        lab.always(ONCE, lambda: lab.mail.count("order-42") <= 1)
        lab.at_end(SENT, lambda: lab.mail.count("order-42") >= 1)

    return two_receipts


def why_twice(trace: Trace) -> str:
    """What to look at when there are two mails."""
    of_a = [event.text.split() for event in trace.events if event.worker == "A"]
    marks = [number for number, words in enumerate(of_a) if "SET" in words]
    mails = [number for number, words in enumerate(of_a) if words[0].startswith("mail.send")]
    if any(event.text.split()[0] == "DEL" for event in trace.events):
        return "Two mails. One worker takes its mark away again; what does the next one find?"
    if sum(words[0] == "GET" for words in of_a) > 1:
        return "Two mails. A second look does not help: both workers take it before either has written."
    if mails and not any(mark < mails[0] for mark in marks):
        return "Two mails. You send before you mark; meanwhile nothing tells the other worker."
    if any("NX" in event.text.split() and event.reply == "nil" for event in trace.events):
        return "Two mails. Redis answered one worker that it had not written. Who listened?"
    if any(event.text.split()[0] in ("GET", "EXISTS") and event.reply not in ("nil", "0") for event in trace.events):
        return "Two mails. One worker found the mark, and sent all the same. A reply is bytes: b'sent' is not 'sent'."
    return "Two mails. Both workers look before either has written. Can looking and writing be one step?"


def starter(r: redis.Redis, mail: Service) -> None:
    if r.get("receipt:42") is None:
        r.set("receipt:42", "sent")
        mail.send("order-42")


def solution(r: redis.Redis, mail: Service) -> None:
    if r.set("receipt:42", "sent", nx=True):
        mail.send("order-42")


# ---- mistakes


def looks_twice(r: redis.Redis, mail: Service) -> None:
    if r.get("receipt:42") is None and r.get("receipt:42") is None:
        r.set("receipt:42", "sent")
        mail.send("order-42")


def sends_first(r: redis.Redis, mail: Service) -> None:
    if r.get("receipt:42") is None:
        mail.send("order-42")
        r.set("receipt:42", "sent")


def tidies_up(r: redis.Redis, mail: Service) -> None:
    if r.set("receipt:42", "sent", nx=True):
        mail.send("order-42")
        r.delete("receipt:42")


def does_not_listen(r: redis.Redis, mail: Service) -> None:
    r.set("receipt:42", "sent", nx=True)
    mail.send("order-42")


def compares_bytes_with_text(r: redis.Redis, mail: Service) -> None:
    if r.get("receipt:42") != "sent":
        r.set("receipt:42", "sent")
        mail.send("order-42")


def marks_in_a_transaction(r: redis.Redis, mail: Service) -> None:
    if r.get("receipt:42") is None:
        with r.pipeline() as pipe:
            pipe.set("receipt:42", "sent")
            pipe.execute()
        mail.send("order-42")


def sleeps_at_random(r: redis.Redis, mail: Service) -> None:
    time.sleep(random.random())
    if r.get("receipt:42") is None:
        r.set("receipt:42", "sent")
        mail.send("order-42")


def sends_nothing(r: redis.Redis, mail: Service) -> None:
    r.set("receipt:42", "sent", nx=True)


send_once = WriteProgram(
    "send_once",
    "Change my_send_receipt so that no order of steps sends two mails.",
    names=["my_send_receipt"],
    starter=(starter,),
    solution=(solution,),
    hints=(
        "Between looking and writing, the other worker may look as well. How many steps do you take?",
        "Redis can do both in one step: `SET key value NX` writes only if the key does not exist.",
        "`r.set(key, value, nx=True)` returns True for the one that wrote, None for the other. Put it into the `if`.",
    ),
    worlds=[
        World(
            world,
            {
                SENT: "No mail at all. The customer waits: follow the worker that should have sent it.",
                ONCE: why_twice,
            },
            wakes=True,
        )
    ],
    praise="One mail, in every order. (What a crash does to it is another question, and a later notebook.)",
    mistakes=[
        Mistake("check-then-set", (starter,), "look before either has written"),
        Mistake("a second look", (looks_twice,), "A second look does not help"),
        Mistake("effect before key", (sends_first,), "You send before you mark"),
        Mistake("the key is deleted again", (tidies_up,), "takes its mark away"),
        Mistake("nobody listens to the reply", (does_not_listen,), "Who listened?"),
        Mistake("bytes are no text", (compares_bytes_with_text,), "b'sent' is not 'sent'"),
        Mistake("a transaction around the mark alone", (marks_in_a_transaction,), "look before either has written"),
        Mistake("a wait at random", (sleeps_at_random,), "only makes it rare"),
        Mistake("no effect", (sends_nothing,), "No mail at all"),
    ],
)
