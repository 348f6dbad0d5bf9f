"""Exercise: write the schedule after which a cache keeps a status that the database no longer has."""

from __future__ import annotations

import redis

from labkit.exercises.exercise import Mistake
from labkit.exercises.write_schedule import WriteSchedule
from labkit.lab import Lab
from labkit.stores.sql_connection import SqlConnection

AGREE = "what is cached is what the database says"
SELECT = "SELECT status FROM jobs WHERE id = '1'"


def _read(r: redis.Redis, db: SqlConnection) -> None:
    if r.get("status_cache:1") is None:
        (status,) = db.execute(SELECT).fetchone()
        r.set("status_cache:1", status, ex=60)


def _complete(r: redis.Redis, db: SqlConnection) -> None:
    db.execute("UPDATE jobs SET status = 'completed' WHERE id = '1'")
    db.commit()
    r.delete("status_cache:1")


def lost_copy(lab: Lab) -> None:
    """The cache has lost the status of job 1: API reads it, while A completes the job."""
    seen, jobs = lab.redis(decode_responses=True), lab.sql()
    jobs.execute("CREATE TABLE jobs (id TEXT, status TEXT)")
    jobs.execute("INSERT INTO jobs VALUES ('1', 'in-progress')")
    lab.worker("API", _read, lab.redis(), lab.sql())
    lab.worker("A", _complete, lab.redis(), lab.sql())
    lab.at_end(AGREE, lambda: seen.get("status_cache:1") in (None, jobs.execute(SELECT).fetchone()[0]))


stale_copy = WriteSchedule(
    "stale_copy",
    "Write an order of API's and A's steps after which the cache says in-progress, and the database says completed.",
    names=["my_schedule"],
    starter=("API API API A A A",),
    solution=("API API A A A API",),
    scenario=lost_copy,
    breaks=AGREE,
    missed="In the end, cache and database agree. Which of the two came last to the cache, and how old was its status?",
    praise="The old status is back in the cache, after the write that was to end it: for a minute, everybody reads it.",
    hints=(
        "A deletes the copy when it has committed. What must happen after that?",
        "API must write its copy after A has deleted. So when must it have read the database?",
        "API looks into the cache and the database; then A does all it does; then API writes its copy.",
    ),
    mistakes=[
        Mistake("one after the other", ("API API API A A A",), "Which of the two came last"),
        Mistake("the writer first", ("A A A API API API",), "Which of the two came last"),
        Mistake("read after the commit", ("API A A API A API",), "Which of the two came last"),
        Mistake("it ends too early", ("API API A",), "add steps"),
        Mistake("a crash", ("API API A A crash:A API",), "none may happen"),
        Mistake("no such worker", ("B A",), "cannot be"),
    ],
)
