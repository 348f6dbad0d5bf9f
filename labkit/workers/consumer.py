"""What becomes of one message: the handler's work, and the settlement that follows from how it ended."""

from __future__ import annotations

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
    `dead_letters`. Whatever else happens, it comes back.
    Does not: do a job once. What the handler did before it failed or died is done again.

    Parameters
    ----------
    queue: has `delete(receipt_handle)`, and `change_visibility(receipt_handle, seconds)` if it takes messages back.
    handler: called with a `Job`. To return means that it is done, whatever is returned; to raise, that it is not.
    worker_id, deployment_id: who this is, for the log.
    ack: when to delete a message, "after" the job or "before" it. Before, a job whose worker dies is lost.
    retry: what a failure means.
    dead_letters: a queue for jobs that have no further attempt; without it, that is left to `queue`.
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

    def work(self, job: Job) -> None:
        """Do one job, and settle its message."""
        if self.ack == "before":
            settle(job, "job.acked", self.queue.delete)
        try:
            job.check()  # it may have waited for its turn
            job.log("job.started")
            self.handler(job)
        except Exception as error:
            job.log("job.busy" if isinstance(error, Busy) else "job.failed", error=describe(error))
            if self.ack == "after" and not isinstance(error, HeartbeatLost):  # what was lost is another's to settle
                self._retry(job, error)
        else:
            if self.ack == "after":
                settle(job, "job.acked", self.queue.delete)

    @property
    def can_give_back(self) -> bool:
        """Whether the queue takes messages back; from another, they come back in its own way, or not at all."""
        return hasattr(self.queue, "change_visibility")

    def _retry(self, job: Job, error: Exception) -> None:
        seconds = self.retry.wait(error, job.attempt or 1)
        if seconds is None and self.dead_letters is not None:
            settle(job, "job.dead_lettered", self._bury, job.body)
        elif seconds is not None and self.can_give_back:
            settle(job, "job.released", self.queue.change_visibility, seconds)

    def _bury(self, receipt_handle: str, body: object) -> Any:
        self.dead_letters.send(body)  # first: a crash between the two leaves two of it, and not none
        return self.queue.delete(receipt_handle)
