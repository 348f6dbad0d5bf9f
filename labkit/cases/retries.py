"""Retries that begin again from the start, or never begin at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.lab import Service

# ---- P34: a mark that stays when the handler fails


def deliver(r: Any, mailer: Service, handle: Callable[[Any, Service], None], wait: float) -> None:
    """The platform delivers its message after a while."""
    if wait:
        time.sleep(wait)
    with suppress(LookupError):
        handle(r, mailer)


def answer(r: Any, mailer: Service) -> None:
    """What the handler does: it needs the session."""
    if r.get("session") is None:
        raise LookupError("no session")
    mailer.call("answer")


def mark_first(r: Any, mailer: Service) -> None:
    """As it was: mark the message as seen, then handle it."""
    if r.sadd("seen", "message"):
        answer(r, mailer)


def unmark_on_failure(r: Any, mailer: Service) -> None:
    """As it was mended: take the mark away when the handler fails."""
    if r.sadd("seen", "message"):
        try:
            answer(r, mailer)
        except LookupError:
            r.srem("seen", "message")
            raise


def gateway(lab: Lab, handle: Callable[[Any, Service], None]) -> None:
    """A message that is delivered to A, and half a minute later to B; the session comes up at any moment."""
    mailer = lab.service("mailer")
    for name, wait in (("A", 0), ("B", 30)):
        lab.worker(name, deliver, lab.redis(), mailer, handle, wait, spared=name == "B")
    lab.worker("S", lambda r: r.set("session", "up"), lab.redis(), spared=True)
    lab.always("a message is answered once", lambda: mailer.count() <= 1)
    lab.at_end("a message is answered in the end", lambda: mailer.count() >= 1)


P34 = Case(
    id="P34",
    title="hermes-agent: a message is marked as seen before it is handled",
    sources=("https://github.com/NousResearch/hermes-agent/issues/62860",),
    mechanism="The handler fails after the mark, so the platform's next delivery is taken for a duplicate and dropped.",
    fix="Take the mark away when the handler fails, and keep it when it succeeds; a crash needs a lease (P33).",
    broken=lambda lab: gateway(lab, mark_first),
    fixed=lambda lab: gateway(lab, unmark_on_failure),
)


# ---- P38: a batch that fails in the middle

RECIPIENTS = ("ann", "bob")


def send_all(r: Any, post: Service, fixed: bool, *waits: float) -> None:
    """A job with a mail for each recipient; what fails is tried again, from the first."""
    for seconds in waits:
        if seconds:
            time.sleep(seconds)
        if r.exists("sent"):
            return
        with suppress(TimeoutError):
            for recipient in RECIPIENTS:
                post.call(recipient, idempotency_key=f"announcement to {recipient}" if fixed else None)
            r.set("sent", "yes")


def batch(lab: Lab, fixed: bool) -> None:
    """A may die, or not be answered, and tries again; B takes over when it is long gone."""
    post = lab.service("post", deduplicates=True)
    lab.worker("A", send_all, lab.redis(), post, fixed, 0, 10)
    lab.worker("B", send_all, lab.redis(), post, fixed, 60, spared=True)
    lab.always("each recipient gets one mail", lambda: all(post.count(who) <= 1 for who in RECIPIENTS))
    lab.at_end("each recipient gets a mail in the end", lambda: all(post.count(who) >= 1 for who in RECIPIENTS))


# To queue a job for each recipient instead repeats one mail, not all: the key is needed all the same.
P38 = Case(
    "P38",
    "LaunchNotes: a retry of the batch sends the mails that had gone out",
    ("https://status.launchnotes.com/incidents/01J364YWJ9TXQVSV95FG1MSDE0/write-up",),
    "The job fails in the middle, and its retry starts with the first recipient: nothing says who has a mail already.",
    "A key for each recipient, sent along to the mail service; a job for each makes the retry small, not harmless.",
    *in_both(batch),
    budgets={"crashes": 1, "lost_replies": 1},
)
