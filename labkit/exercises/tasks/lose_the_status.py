"""Exercise: write the schedule in which a job is completed, and its status is lost."""

from __future__ import annotations

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_schedule import WriteSchedule
from labkit.lab import Lab, Service

STAYS = "a completed job stays completed"


def _complete_job(r: redis.Redis, events: Service) -> None:
    if r.get("job_status:1") != b"completed":
        r.set("job_status:1", "completed")
        events.publish("1")


def _give_back(r: redis.Redis) -> None:
    if r.get("job_status:1") == b"in-progress":
        r.set("job_status:1", "pending")


def worker_and_watcher(lab: Lab) -> None:
    """A completes job 1, while the watcher gives back jobs that take too long."""
    jobs = lab.redis()
    jobs.set("job_status:1", "in-progress")
    lab.worker("A", _complete_job, lab.redis(), lab.events)
    lab.worker("watcher", _give_back, lab.redis())
    lab.always(STAYS, lambda before, now: before != b"completed" or now == before, lambda: jobs.get("job_status:1"))


lose_the_status = WriteSchedule(
    "lose_the_status",
    "Write an order of A's and the watcher's steps after which the job is done and its status reads pending.",
    names=["my_schedule"],
    starter=("A A A watcher",),
    solution=("watcher A A watcher",),
    scenario=worker_and_watcher,
    breaks=STAYS,
    missed="Nothing is lost in this order. What did the watcher read, and was it still true when it wrote?",
    praise="The watcher wrote what was true when it read. Nobody made a mistake, and the job reads pending.",
    hints=(
        "The watcher does harm only when it has read `in-progress`. When must it read?",
        "It must read before A writes `completed`, and write afterwards.",
        "One step of the watcher, then A reads, then A writes, then the watcher again.",
    ),
    mistakes=[
        Mistake("the watcher comes last", ("A A A watcher",), "was it still true"),
        Mistake("the watcher writes first", ("watcher watcher A A A",), "was it still true"),
        Mistake("it ends too early", ("watcher A",), "add steps"),
        Mistake("more steps than there are", ("watcher watcher watcher",), "cannot be"),
        Mistake("a worker that does not exist", ("B A",), "cannot be"),
        Mistake("a crash", ("watcher A A crash:A watcher",), "Here none may happen"),
    ],
)
