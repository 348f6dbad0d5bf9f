"""A worker's life: it polls, drains when it is told to, and stops."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from .checks import check_number
from .consumer import Consumer
from .heartbeat import Heartbeat
from .job import Job
from .settlement import describe, settle


@dataclass
class Worker(Consumer):
    """Polls a queue and does one job after another; on SIGTERM it finishes the one in hand, and gives the rest back.

    Guarantees, on a queue with `change_visibility` and with `gives_back`: once told to drain, it begins no other job,
    and tries to give back what it has not begun. On other queues it works off what it has received.
    Does not: end in time. What takes longer than the grace period, a receive under way included, is killed.
    Shown by `died(5, 1)` in tests/test_workers.py: `A A signal:A clock A A crash:A clock B B B clock B B B clock B B`.

    Parameters
    ----------
    queue, handler, worker_id, deployment_id, ack, retry, dead_letters, emit: as for `Consumer`.
    prefetch: how many messages one receive may bring; while one is worked on, the time of the others runs too.
    wait: seconds that a receive waits for a message; to drain may take as much longer.
    keep_hidden: seconds for which a heartbeat hides what is in hand, anew in each third of them. A queue whose
        `receive` takes a `visibility_timeout` is told the same number; another must be set to it. None: no heartbeat.
    gives_back: whether draining gives back what was received and not begun; it is hidden until its timeout otherwise.
    drains: whether SIGTERM means to drain; it kills otherwise. In another thread, pass False and call `drain` yourself.
    """

    prefetch: int = field(default=1, kw_only=True)
    wait: float = field(default=2, kw_only=True)
    keep_hidden: float | None = field(default=None, kw_only=True)
    gives_back: bool = field(default=True, kw_only=True)
    drains: bool = field(default=True, kw_only=True)
    state: str = field(default="polling", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_bad(self)

    def run(self, max_jobs: int | None = None, stop_when_empty: bool = False) -> None:
        """Work until told to drain, until so many jobs were received, or until a receive brings none."""
        _refuse_endless_asking(self, max_jobs, stop_when_empty)
        left = sys.maxsize if max_jobs is None else max_jobs
        with _on_sigterm(self.drain) if self.drains else nullcontext():
            while self.state == "polling" and left > 0:
                received = self._work_off(min(left, self.prefetch))
                left = 0 if stop_when_empty and not received else left - received
            event = "worker.drained" if self.state == "draining" else "worker.stopped"
            self.state = "stopped"
            self.emit({"event": event, "worker_id": self.worker_id, "deployment_id": self.deployment_id})

    def drain(self, *_: object) -> None:
        """Begin no other job; only sets a flag, since a signal comes in the middle of anything."""
        if self.state == "polling":
            self.state = "draining"

    def _work_off(self, most: int) -> int:
        messages = self.queue.receive(wait=self.wait, **_wishes(self, most))
        beat = _heartbeat(self, messages, self.keep_hidden) if messages and self.keep_hidden else None
        jobs = [Job(message, self.worker_id, self.deployment_id, self.emit, beat) for message in messages]
        for job in jobs:
            job.log("job.received")
        with beat or nullcontext():
            for job in jobs:
                if self.state == "polling" or not self.can_give_back:
                    self.work(job)
                elif self.gives_back:
                    settle(job, "job.released", self.queue.change_visibility, 0)
        return len(jobs)


def _heartbeat(worker: Worker, messages: list[Any], seconds: float) -> Heartbeat:
    def tell(message: Any, error: Exception) -> None:
        job = Job(message, worker.worker_id, worker.deployment_id, worker.emit)
        job.log("heartbeat.failed", error=describe(error))

    return Heartbeat(worker.queue, messages, seconds, tell)


def _wishes(worker: Worker, most: int) -> dict[str, float]:
    """What a receive is asked for besides its wait, of a queue that knows such wishes."""
    wishes: dict[str, float] = {"max_messages": most} if worker.prefetch > 1 else {}
    if worker.keep_hidden is not None and _takes(worker.queue, "visibility_timeout"):
        wishes["visibility_timeout"] = worker.keep_hidden
    return wishes


@contextmanager
def _on_sigterm(handler: Callable[..., object]) -> Iterator[None]:
    try:
        before = signal.signal(signal.SIGTERM, handler)
    except ValueError as error:
        raise RuntimeError("in another thread, pass drains=False and call drain() yourself") from error
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _refuse_bad(worker: Worker) -> None:
    check_number("prefetch", worker.prefetch, 1, whole=True)
    check_number("wait", worker.wait)
    if worker.keep_hidden is not None:
        check_number("keep_hidden", worker.keep_hidden, 0.001)
        if not worker.can_give_back:
            raise ValueError("keep_hidden needs a queue with change_visibility")
    most, longest = getattr(worker.queue, "most_messages", None), getattr(worker.queue, "longest_wait", None)
    if worker.prefetch > 1 and not _takes(worker.queue, "max_messages"):
        raise ValueError(f"prefetch is {worker.prefetch!r}; this queue gives one message at a time, so it must be 1")
    if most is not None and worker.prefetch > most:
        raise ValueError(f"prefetch is {worker.prefetch!r}; this queue gives at most {most} messages at a time")
    if longest is not None and worker.wait > longest:
        raise ValueError(f"wait is {worker.wait!r}; a receive of this queue waits for at most {longest:g} seconds")


def _takes(queue: Any, wish: str) -> bool:
    """Whether a queue's `receive` knows a wish."""
    return wish in inspect.signature(queue.receive).parameters


def _refuse_endless_asking(worker: Worker, max_jobs: int | None, stop_when_empty: bool) -> None:
    if worker.state == "stopped":
        raise RuntimeError(f"worker {worker.worker_id} has stopped; a worker runs once, make another")
    if max_jobs is not None:
        check_number("max_jobs", max_jobs, whole=True)
    if not worker.wait and not stop_when_empty:
        raise ValueError("wait is 0, so an empty queue would be asked without end: wait longer, or stop_when_empty")
