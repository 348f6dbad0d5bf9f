"""Exercise: say what must hold of a job in a queue, so that four wrong handlers are caught."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_property import Program, WriteProperty
from labkit.lab import Lab, Service
from labkit.queues import Message, VisibilityQueue

Count = Callable[[], int]
Handler = Callable[[VisibilityQueue, Message, Service, redis.Redis], None]


def _work(queue: VisibilityQueue, handle: Handler, mail: Service, r: redis.Redis, wait: float) -> None:
    if wait:
        time.sleep(wait)
    for message in queue.receive():
        handle(queue, message, mail, r)


def _built(handle: Handler) -> Callable[[Lab], tuple[Any, ...]]:
    """A, which may die, and B, which looks a minute later and is spared."""

    def build(lab: Lab) -> tuple[Any, ...]:
        queue = VisibilityQueue.create(lab.redis(), "orders")
        queue.send({"order": "1"})
        lab.deadlines(queue.deadlines)
        mail = lab.service("mail_service", deduplicates=True)
        for name, wait in (("A", 0), ("B", 60)):
            own, r = VisibilityQueue(lab.redis(), "orders"), lab.redis()
            lab.worker(name, _work, own, handle, mail, r, wait, spared=name == "B")
        return (lambda: len(queue.deadlines()), lambda: mail.count("1"))

    return build


# ---- handlers: the sound one, and the four that are to be caught


def _effect_then_ack(queue: VisibilityQueue, message: Message, mail: Service, r: redis.Redis) -> None:
    mail.call("1", idempotency_key=message.id)
    queue.delete(message.receipt_handle)


def _ack_then_effect(queue: VisibilityQueue, message: Message, mail: Service, r: redis.Redis) -> None:
    queue.delete(message.receipt_handle)
    mail.call("1", idempotency_key=message.id)


def _key_then_effect(queue: VisibilityQueue, message: Message, mail: Service, r: redis.Redis) -> None:
    if r.set(f"done:{message.id}", "yes", nx=True):
        mail.call("1")
    queue.delete(message.receipt_handle)


def _effect_then_key(queue: VisibilityQueue, message: Message, mail: Service, r: redis.Redis) -> None:
    if r.get(f"done:{message.id}") is None:
        mail.call("1")
        r.set(f"done:{message.id}", "yes")
    queue.delete(message.receipt_handle)


def _no_ack(queue: VisibilityQueue, message: Message, mail: Service, r: redis.Redis) -> None:
    mail.call("1", idempotency_key=message.id)


# ---- properties


def starter(lab: Lab, left: Count, mails: Count) -> None:
    lab.always("at most one message is left", lambda: left() <= 1)


def solution(lab: Lab, left: Count, mails: Count) -> None:
    lab.always("at most one mail", lambda: mails() <= 1)
    lab.always("a message that is gone was mailed", lambda: left() == 1 or mails() == 1)
    lab.at_end("nothing is left", lambda: left() == 0)


def nothing(lab: Lab, left: Count, mails: Count) -> None:
    pass


def not_twice(lab: Lab, left: Count, mails: Count) -> None:
    lab.always("at most one mail", lambda: mails() <= 1)


def not_lost(lab: Lab, left: Count, mails: Count) -> None:
    lab.at_end("mailed", lambda: mails() >= 1)


def one_mail(lab: Lab, left: Count, mails: Count) -> None:
    lab.at_end("mailed once", lambda: mails() == 1)


def emptied(lab: Lab, left: Count, mails: Count) -> None:
    not_twice(lab, left, mails)
    lab.at_end("nothing is left", lambda: left() == 0)


def too_strict(lab: Lab, left: Count, mails: Count) -> None:
    lab.always("mailed is gone", lambda: left() + mails() == 1)


CRASH = {"crashes": 1}

gone_means_done = WriteProperty(
    "gone_means_done",
    "State what must hold of the message and its mail: left() is how many messages the queue has, mails() how many "
    "mails have gone out.",
    names=["my_properties"],
    starter=(starter,),
    solution=(solution,),
    sound=Program(
        _built(_effect_then_ack),
        "You reject the sound handler. It mails first and deletes afterwards: in between, both are there.",
        CRASH,
    ),
    mutants=[
        Program(
            _built(_effect_then_key),
            "You accept a handler that sends two mails: it dies after the mail and before its key. Who counts mails?",
            CRASH,
        ),
        Program(
            _built(_ack_then_effect),
            "You accept a handler that deletes the message, dies, and never mails. What must have happened before a "
            "message may be gone?",
            CRASH,
        ),
        Program(
            _built(_key_then_effect),
            "You accept a handler that writes its key and dies; the next one finds the key, and deletes the message.",
            CRASH,
        ),
        Program(
            _built(_no_ack),
            "You accept a handler that never deletes: the message comes back for days. What must the queue look like "
            "in the end?",
        ),
    ],
    praise="Not twice, not lost, not for ever.",
    hints=(
        "Three things can go wrong with a message: done twice, lost, delivered for ever. One property for each.",
        "Lost: the message is gone, and there was no mail. Say it with always: left() == 1 or mails() == 1.",
        "always mails() <= 1; always left() == 1 or mails() == 1; at_end left() == 0. Each with a name.",
    ),
    mistakes=[
        Mistake("no property", (nothing,), "No property is stated"),
        Mistake("only: not twice", (not_twice,), "never mails"),
        Mistake("only: not lost", (not_lost,), "sends two mails"),
        Mistake("the queue is forgotten", (one_mail,), "comes back for days"),
        Mistake("an empty queue is taken for success", (emptied,), "never mails"),
        Mistake("too strict", (too_strict,), "You reject the sound handler"),
    ],
)
