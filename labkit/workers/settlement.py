"""Telling a queue what became of a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .job import Job


def settle(job: Job, event: str, action: Callable[..., Any], *arguments: object) -> None:
    """Call the queue about a job's message, and log the event, with `result` "ok", "stale", or "error".

    "stale": the message was received again since, so this worker's word counts no more. After an error the queue
    may have heard or not. Neither is a reason to stop: what was not settled is the queue's to deliver again.
    """
    if job.heartbeat is not None:
        job.heartbeat.let_go(job.message)
    try:
        result = "ok" if action(job.message.receipt_handle, *arguments) else "stale"
    except Exception as error:
        job.log(event, result="error", error=describe(error))
    else:
        job.log(event, result=result)


def describe(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"
