"""A job as its handler gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .heartbeat import Heartbeat
from .log import Emit, log_event


@dataclass(frozen=True)
class Job:
    """One delivery of a message, with the ids that tell it apart in every log.

    Parameters
    ----------
    message: as the queue delivered it: `body`, `receipt_handle`, `id`, `receive_count`.
    worker_id, deployment_id: who works on it.
    emit: called with each event, a dict that JSON can say.
    heartbeat: what keeps the message hidden meanwhile, if anything does.
    """

    message: Any
    worker_id: str
    deployment_id: str = ""
    emit: Emit = log_event
    heartbeat: Heartbeat | None = None

    @property
    def body(self) -> Any:
        """What was sent."""
        return self.message.body

    @property
    def attempt(self) -> int | None:
        """How often the message was delivered, this time included; None where the queue does not count."""
        count: int | None = self.message.receive_count
        return count

    @property
    def correlation(self) -> dict[str, Any]:
        """The ids, the same from producer to consumer; those that the producer did not put into the body are None."""
        sent = self.body if isinstance(self.body, dict) else {}
        return {
            "job_id": sent.get("job_id", self.message.id),
            "event_id": sent.get("event_id"),
            "order_id": sent.get("order_id"),
            "worker_id": self.worker_id,
            "deployment_id": self.deployment_id,
            "attempt": self.attempt,
        }

    def log(self, event: str, **fields: object) -> None:
        """Emit an event of this job, for example `log("effect.applied", effect="mail")`."""
        self.emit({"event": event, **fields, **self.correlation})

    @property
    def is_lost(self) -> bool:
        """Whether a heartbeat has failed to keep the message hidden; says less than `check`, and reads no clock."""
        return self.heartbeat is not None and self.message.receipt_handle in self.heartbeat.lost

    def check(self) -> None:
        """`HeartbeatLost` once the message may be somebody else's; call it before each effect."""
        if self.heartbeat is not None:
            self.heartbeat.check(self.message)
