"""What a rolling deploy does to workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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


class DeployFailed(RuntimeError):
    """A new worker ended, or was not ready in time; no old one was told to stop."""


def alive(handle: Handle) -> bool:
    """Ready is who lives: all that is known of a worker that does not say when it polls."""
    return handle.is_alive()


@dataclass(frozen=True)
class Deployment:
    """A rolling deploy, as Kubernetes does it: the new workers start, then the old ones are told to stop.

    Guarantees: the old ones are left alone until each new one was ready, and all lived after that; when it is over, no
    old worker lives.
    Does not: know more than `ready` says. By default that is to live, and a worker that dies of a bad setting a second
    later was alive. Nor keep the two generations apart: both poll until the old one drains, for as long as the grace
    period. Nor end the new workers of a deploy that failed.

    Parameters
    ----------
    deployment_id: the new generation's, for the log.
    grace_period: seconds from SIGTERM to SIGKILL; 30 in Kubernetes.
    ready: whether a new worker works by now, for example has polled; asked every tenth of a second.
    ready_within: seconds that the new workers have for it, together.
    emit: called with each event, a dict that JSON can say.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    """

    deployment_id: str
    grace_period: float = 30
    ready: Callable[[Any], bool] = alive
    ready_within: float = 60
    emit: Emit = log_event

    def __post_init__(self) -> None:
        check_number("grace_period", self.grace_period)
        check_number("ready_within", self.ready_within)

    def roll(self, old: Sequence[AnyHandle], new: Sequence[Handle]) -> list[AnyHandle]:
        """Replace the old workers by the new; returns the old ones that had to be killed.

        When a new one fails to start, the error ends the deploy, and the old ones are left alone. `DeployFailed` when
        one ends or is not ready in time, `ValueError` for an old one that was never started.
        """
        _refuse_unstarted(old)
        for handle in new:
            handle.start()
            self._say("worker.started", handle)
        _wait_until_ready(new, self.ready, self.ready_within)
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


def _refuse_unstarted(old: Sequence[Handle]) -> None:
    for handle in old:
        try:
            handle.join(0)  # every kind of handle refuses that before its start
        except Exception as error:
            raise ValueError(f"old worker {handle.name} was never started, so there is nothing to replace") from error


def _wait_until_ready(new: Sequence[Handle], ready: Callable[[Any], bool], within: float) -> None:
    end = time.monotonic() + within
    for handle in new:
        while handle.is_alive() and not ready(handle):
            if time.monotonic() >= end:
                raise DeployFailed(f"new worker {handle.name} was not ready within {within:g} s")
            time.sleep(0.1)
    for handle in new:
        if not handle.is_alive():
            raise DeployFailed(f"new worker {handle.name} has ended; see its log")
