"""The checklist that closes the second incident: nine points, each a question to a system of your own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One point of a checklist.

    Parameters
    ----------
    name: what it is called.
    question: what to ask of a system; yes is the good answer.
    look: where to look, or what to try, before saying yes.
    """

    name: str
    question: str
    look: str


CHECKLIST = (
    Point(
        "Idempotency key",
        "Has every effect that matters a key of its own, checked and written in one step?",
        "a unique constraint for each effect; the key in calls to providers; a crash between the key and the effect",
    ),
    Point(
        "Distributed lock",
        "Where there is a lock: is it taken in one step, does it end by itself, and does only its owner release it?",
        "SET NX with an expiry; release by a script that compares the token; what happens when it ends during the job",
    ),
    Point(
        "Graceful shutdown",
        "Does a worker that is told to stop take no more jobs, finish its own, acknowledge it, and only then exit?",
        "a SIGTERM during the longest job; the grace period beside the 99th percentile of durations",
    ),
    Point(
        "Retry policy",
        "Are business errors, passing errors and redeliveries told apart, and do retries have an end?",
        "the receive count beside the attempts; a dead-letter queue that somebody reads",
    ),
    Point(
        "Visibility timeout",
        "Is it longer than the jobs really take, as measured, or is it renewed by a heartbeat?",
        "the 99th percentile of durations beside the timeout, the lock's expiry and the grace period",
    ),
    Point(
        "Correlation ID",
        "Do producer, worker and effect log the same ids: event, job, attempt, worker, deployment?",
        "take one order of yesterday and write down who did what to it, from the logs alone",
    ),
    Point(
        "Queue metrics",
        "Do you see sent, received, acknowledged, redelivered, age of the oldest message, and duration?",
        "received minus sent during the last deploy",
    ),
    Point(
        "Local reproduction",
        "Is there a test with two workers, a short timeout, a crash and a deploy?",
        "a scenario of your handler, searched in continuous integration",
    ),
    Point(
        "Alerting",
        "Does somebody get an alert when jobs overlap, or when idempotency conflicts jump after a deploy?",
        "fire it once on purpose; count what was sent and never done, too",
    ),
)
