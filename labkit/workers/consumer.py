"""What becomes of one message: the handler's work, and the settlement that follows from how it ended."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .heartbeat import HeartbeatLost
from .job import Job
from .log import Emit, log_event
from .retry_policy import Busy, RetryPolicy
from .settlement import describe, settle


@dataclass
class Consumer:
    """Hands a message to a handler and settles it: acks it, gives it back, or makes it a dead letter.

    Guarantees: with `ack="after"`, a message is deleted only when its handler has returned, or when it is in
    `dead_letters`. Whatever else happens, a queue with `change_visibility` delivers it again.
    Does not: do a job once. What the handler did before it failed or died is done again. Nor give a failed job's
    message back to a queue without `change_visibility`: it logs `job.unsettled`, and the table in this folder's
    `__init__.py` says who must bring it back.
    Shown by `died()` in tests/test_workers.py, A killed before its ack: `A A A A crash:A clock B B B clock B B B B B`.

    Parameters
    ----------
    queue: has `delete(receipt_handle)`, and `change_visibility(receipt_handle, seconds)` if it takes messages back.
    handler: called with a `Job`. To return means that it is done, whatever is returned; to raise, that it is not.
    worker_id, deployment_id: who this is, for the log.
    ack: when to delete a message, "after" the job or "before" it. Before, a job that fails is lost like one whose
        worker dies: there is nothing left to try again, and no `dead_letters`.
    retry: what a failure means.
    dead_letters: a queue for jobs that have no further attempt. Without it, `job.given_up` is logged, and `queue`
        delivers the message again for as long as its own rules say.
    emit: called with each event, a dict that JSON can say.
    """

    queue: Any
    handler: Callable[[Job], object]
    worker_id: str = field(kw_only=True)
    deployment_id: str = field(default="", kw_only=True)
    ack: str = field(default="after", kw_only=True)
    retry: RetryPolicy = field(default=RetryPolicy(), kw_only=True)
    dead_letters: Any = field(default=None, kw_only=True)
    emit: Emit = field(default=log_event, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_bad(self)

    def work(self, job: Job) -> None:
        """Do one job, and settle its message."""
        if self.ack == "before":
            settle(job, "job.acked", self.queue.delete)
        try:
            if job.is_lost:  # it may have waited for its turn
                job.check()
            job.log("job.started")
            self.handler(job)
        except Exception as error:
            job.log("job.busy" if isinstance(error, Busy) else "job.failed", error=describe(error))
            if self.ack == "after" and not isinstance(error, HeartbeatLost):  # what was lost is another's to settle
                _settle_failed(self, job, error)
        else:
            if self.ack == "after":
                settle(job, "job.acked", self.queue.delete)

    @property
    def can_give_back(self) -> bool:
        """Whether the queue takes messages back; from another, they come back in its own way, or not at all."""
        return hasattr(self.queue, "change_visibility")

    def _bury(self, receipt_handle: str, body: object) -> Any:
        self.dead_letters.send(body)  # first: a crash between the two leaves two of it, and not none
        return self.queue.delete(receipt_handle)


def _settle_failed(consumer: Consumer, job: Job, error: Exception) -> None:
    seconds = consumer.retry.wait(error, job.attempt or 1)
    if seconds is None and consumer.dead_letters is not None:
        settle(job, "job.dead_lettered", consumer._bury, job.body)
    elif seconds is None:
        job.log("job.given_up")
    elif consumer.can_give_back:
        settle(job, "job.released", consumer.queue.change_visibility, seconds)
    else:
        job.log("job.unsettled")


def _refuse_bad(consumer: Consumer) -> None:
    if consumer.ack not in ("after", "before"):
        raise ValueError(f'ack is {consumer.ack!r}; it must be "after" or "before"')
    if inspect.iscoroutinefunction(consumer.handler) or inspect.isgeneratorfunction(consumer.handler):
        raise ValueError(f"handler is {consumer.handler!r}; nothing of it would run: write it without async and yield")
    if not callable(consumer.handler):
        raise ValueError(f"handler is {consumer.handler!r}; it must be a function that takes a Job")
    if not isinstance(consumer.worker_id, str) or not consumer.worker_id:
        raise ValueError(f"worker_id is {consumer.worker_id!r}; it must be a name that no other worker has")
    if not isinstance(consumer.retry, RetryPolicy):
        raise ValueError(f"retry is {consumer.retry!r}; it must be a RetryPolicy, such as RetryPolicy(max_attempts=3)")
    if consumer.dead_letters is not None and not hasattr(consumer.dead_letters, "send"):
        raise ValueError(f"dead_letters is {consumer.dead_letters!r}; it must be a queue, which has `send`")
    if consumer.dead_letters is not None and consumer.ack == "before":
        raise ValueError('dead_letters are for ack="after"; with ack="before" a job that fails is gone already')
