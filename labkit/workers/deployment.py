"""What a rolling deploy does to workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .checks import check_number
from .log import Emit, log_event


class Handle(Protocol):
    """A worker from outside, in the words of `multiprocessing.Process`, which is one; `ProcessHandle` is another."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    def start(self) -> None:
        """Let it run."""

    def terminate(self) -> None:
        """Send it SIGTERM; nothing happens when it has ended."""

    def kill(self) -> None:
        """Send it SIGKILL; nothing happens when it has ended."""

    def is_alive(self) -> bool:
        """Whether it has not ended."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds."""


AnyHandle = TypeVar("AnyHandle", bound=Handle)


@dataclass(frozen=True)
class Deployment:
    """A rolling deploy, as Kubernetes does it: the new workers start, then the old ones are told to stop.

    Guarantees: somebody works at any moment, and when it is over, no old worker lives.
    Does not: keep the two generations apart. Both poll until the old one drains, for as long as the grace period.

    Parameters
    ----------
    deployment_id: the new generation's, for the log.
    grace_period: seconds from SIGTERM to SIGKILL; 30 in Kubernetes.
    emit: called with each event, a dict that JSON can say.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    """

    deployment_id: str
    grace_period: float = 30
    emit: Emit = log_event

    def __post_init__(self) -> None:
        check_number("grace_period", self.grace_period)

    def roll(self, old: Sequence[AnyHandle], new: Sequence[Handle]) -> list[AnyHandle]:
        """Replace the old workers by the new; returns the old ones that had to be killed.

        When a new one fails to start, the error ends the deploy, and the old ones are left alone.
        """
        for handle in new:
            handle.start()
            self._say("worker.started", handle)
        for old_handle in old:
            self._say("worker.terminated", old_handle)
            old_handle.terminate()
        end = time.monotonic() + self.grace_period
        for old_handle in old:
            old_handle.join(max(0, end - time.monotonic()))
        killed = [old_handle for old_handle in old if old_handle.is_alive()]
        for old_handle in killed:
            self._say("worker.killed", old_handle)
            old_handle.kill()
            old_handle.join()
        return killed

    def _say(self, event: str, handle: Handle) -> None:
        self.emit({"event": event, "worker_id": handle.name, "deployment_id": self.deployment_id})
