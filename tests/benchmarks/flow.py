"""Many small jobs through the corrected flow, by processes of its own, without the lab between it and the server.

A job appends its id to a list. Completing it and that are one script, so that a second delivery finds it completed.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from labkit.queues import VisibilityQueue
from labkit.workers import Job, Worker

QUEUE, STATUSES, EFFECTS = "load", "load:statuses", "load:effects"
COMPLETE = """-- complete once, with its effect
if redis.call('hsetnx', KEYS[1], ARGV[1], 'completed') == 0 then return 0 end
return redis.call('rpush', KEYS[2], ARGV[1])
"""
fork = multiprocessing.get_context("fork")


def client(url: str) -> redis.Redis:
    """A client that waits for a server that comes back; what it sends again may take effect twice."""
    return redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 400))


def work(url: str, once: bool = True) -> None:
    """A worker, until SIGTERM; with `once`, a job is completed once, and otherwise as often as it is delivered."""
    r = client(url)
    complete = r.register_script(COMPLETE)

    def handle(job: Job) -> None:
        if once:
            complete(keys=[STATUSES, EFFECTS], args=[job.body])
        else:
            r.rpush(EFFECTS, job.body)

    Worker(VisibilityQueue(r, QUEUE), handle, worker_id="load", wait=1, prefetch=10).run()


def produce(url: str, jobs: range, accepted: Any) -> None:
    """Send jobs, and keep in mind those that the server has accepted."""
    queue = VisibilityQueue(client(url), QUEUE)
    for job in jobs:
        queue.send(str(job))
        accepted.value += 1


class Load:
    """A number of jobs for a number of workers.

    Parameters
    ----------
    url: the server.
    jobs, workers: how many.
    once: see `work`.
    visibility: for how many seconds a received message is hidden.
    """

    def __init__(self, url: str, jobs: int, workers: int, once: bool = True, visibility: float = 5) -> None:
        self.url, self.jobs, self.once = url, jobs, once
        self.r = client(url)
        VisibilityQueue.create(self.r, QUEUE, visibility_timeout=visibility)
        self.workers = [fork.Process(target=work, args=(url, once), daemon=True) for _ in range(workers)]
        shares = [range(start, jobs, workers) for start in range(workers)]
        self.accepted = [fork.Value("i", 0) for _ in shares]
        self.producers = [
            fork.Process(target=produce, args=(url, share, count), daemon=True)
            for share, count in zip(shares, self.accepted, strict=True)
        ]

    def send(self) -> None:
        """Let the producers send all."""
        for process in self.producers:
            process.start()
        for process in self.producers:
            process.join()

    def run(self, kills: int = 0, midway: Callable[[], object] | None = None) -> float:
        """Let the workers do what was sent; returns the seconds that it took.

        Parameters
        ----------
        kills: so many workers are killed on the way, and replaced.
        midway: called when half is done.
        """
        chance, began = random.Random(0), time.monotonic()
        marks = sorted(chance.randint(1, self.jobs - 1) for _ in range(kills))
        try:
            for process in self.workers:
                process.start()
            while not self.is_done():
                alive = [process for process in self.workers if process.is_alive()]
                if not alive:
                    raise RuntimeError("every worker has ended, and not every job is done")
                done = self.done()
                if marks and done >= marks[0]:
                    marks.pop(0)
                    self._replace(chance.choice(alive))
                if midway is not None and done >= self.jobs // 2:
                    midway()
                    midway = None
                time.sleep(0.02)
            if midway is not None:
                raise RuntimeError("all was done before anybody saw that half of it was: more jobs are needed")
            return time.monotonic() - began
        finally:
            self.stop()

    def _replace(self, process: Any) -> None:
        process.kill()
        process.join()
        self.workers.append(fork.Process(target=work, args=(self.url, self.once), daemon=True))
        self.workers[-1].start()

    def done(self) -> int:
        """How many effects there are."""
        return int(self.r.llen(EFFECTS))  # type: ignore[arg-type]

    def is_done(self) -> bool:
        """Whether nothing is left in the queue."""
        found = VisibilityQueue(self.r, QUEUE).attributes()
        return not (found.visible or found.in_flight or found.delayed)

    def stop(self) -> None:
        """End the workers."""
        for process in self.workers:
            if process.pid is not None:
                process.terminate()
        for process in self.workers:
            if process.pid is not None:
                process.join(10)
                process.kill()
                process.join()

    def lost_and_doubled(self) -> tuple[list[str], list[str]]:
        """The jobs that were accepted and had no effect, and those that had more than one."""
        counts = Counter(id.decode() for id in self.r.lrange(EFFECTS, 0, -1))
        shares = [range(start, self.jobs, len(self.producers)) for start in range(len(self.producers))]
        accepted = [
            str(job) for share, count in zip(shares, self.accepted, strict=True) for job in share[: count.value]
        ]
        return [job for job in accepted if not counts[job]], [job for job, count in counts.items() if count > 1]
