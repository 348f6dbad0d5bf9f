"""The same small job in two libraries that people use, on the same server: it appends its id to a list."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import multiprocessing
import os
import time
from typing import Any

import redis

EFFECTS = "peer:effects"
fork = multiprocessing.get_context("fork")
PROMISES = {
    "corrected": "at least once, and its effect once: a dead worker's job comes back; one script completes a job",
    "rq, no fork": "at most once: a dead worker's job is put among the failed ones, and somebody must requeue it",
    "rq": "the same, and a process of its own for each job",
    "dramatiq": "at least once: a dead worker's jobs come back after a minute; the effect may be doubled",
}
_url = ""
_clients: dict[int, redis.Redis] = {}  # by process


def missing(name: str) -> str | None:
    """Why a library cannot run here, in words, or None when it can."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "skipped, not installed: `pip install -e '.[peers]'`"
    return None


def append(job: str) -> None:
    """The job."""
    if os.getpid() not in _clients:
        _clients[os.getpid()] = redis.Redis.from_url(_url)
    _clients[os.getpid()].rpush(EFFECTS, job)


def rq(url: str, jobs: int, workers: int, forks: bool) -> float:
    """Let RQ do so many jobs; returns the seconds that its workers took."""
    from rq import Queue, SimpleWorker, Worker

    _set_url(url)
    queue = Queue(connection=redis.Redis.from_url(url))
    for start in range(0, jobs, 1_000):
        rows = [Queue.prepare_data(append, (str(job),), result_ttl=0) for job in range(start, min(jobs, start + 1_000))]
        queue.enqueue_many(rows)

    def main() -> None:
        logging.disable()
        connection = redis.Redis.from_url(url)
        (Worker if forks else SimpleWorker)([Queue(connection=connection)], connection=connection).work(burst=True)

    return _time(url, jobs, [fork.Process(target=main) for _ in range(workers)])


def dramatiq(url: str, jobs: int, workers: int) -> float:
    """Let Dramatiq do so many jobs; returns the seconds that its workers took."""
    import dramatiq as library
    from dramatiq.brokers.redis import RedisBroker

    _set_url(url)
    logging.getLogger("dramatiq").setLevel(logging.CRITICAL)
    broker = RedisBroker(url=url, namespace="peer-dramatiq")
    actor = library.actor(append, broker=broker, actor_name="append")
    for job in range(jobs):
        actor.send(str(job))

    def main() -> None:
        own = RedisBroker(url=url, namespace="peer-dramatiq")
        library.actor(append, broker=own, actor_name="append")
        library.Worker(own, worker_threads=1, worker_timeout=100).start()
        time.sleep(3_600)

    return _time(url, jobs, [fork.Process(target=main, daemon=True) for _ in range(workers)])


def _set_url(url: str) -> None:
    global _url
    _url = url


def _time(url: str, jobs: int, processes: list[Any]) -> float:
    """The seconds until all jobs have had their effect."""
    r = redis.Redis.from_url(url)
    r.delete(EFFECTS)
    began = time.monotonic()
    for process in processes:
        process.start()
    while r.llen(EFFECTS) < jobs:  # type: ignore[operator]
        time.sleep(0.02)
    took = time.monotonic() - began
    for process in processes:
        process.kill()
        process.join()
    with contextlib.suppress(redis.RedisError):
        r.delete(EFFECTS)
    return took
