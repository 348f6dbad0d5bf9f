"""Jobs that are in no list, or in two, while somebody moves them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from labkit import Lab
from labkit.cases.case import Case, in_both

# ---- P19: kombu pops a task, and then notes that it has it

KOMBU = ["celery", "unacked_index", "unacked"]
_POP_AND_RECORD = """-- pop and record
local task = redis.call('rpop', KEYS[1])
if task then
  redis.call('zadd', KEYS[2], 0, task)
  redis.call('hset', KEYS[3], task, task)
end
return task
"""
_RESTORE = """-- restore
for _, tag in ipairs(redis.call('zrange', KEYS[2], 0, -1)) do
  redis.call('lpush', KEYS[1], redis.call('hget', KEYS[3], tag))
  redis.call('zrem', KEYS[2], tag)
  redis.call('hdel', KEYS[3], tag)
end
"""


def pop_then_record(r: Any) -> Any:
    """As it is. Kombu's score is the time; here whoever restores has waited for long enough."""
    _, task = r.brpop(["celery"])
    with r.pipeline() as pipe:
        pipe.zadd("unacked_index", {task: 0}).hset("unacked", task, task).execute()
    return task


def pop_and_record(r: Any) -> Any:
    """As it might be."""
    return r.register_script(_POP_AND_RECORD)(KOMBU)


def consume(lab: Lab, r: Any, take: Callable[[Any], Any]) -> None:
    """Take a task, run it, and acknowledge it."""
    with lab.section("consumer"):
        if task := take(r):
            lab.mail.send(task)
            with r.pipeline() as pipe:
                pipe.zrem("unacked_index", task).hdel("unacked", task).execute()


def restore(lab: Lab, r: Any, take: Callable[[Any], Any]) -> None:
    """When the visibility timeout is over, another worker restores what is not acknowledged, and runs it."""
    time.sleep(3600)
    r.register_script(_RESTORE)(KOMBU)
    consume(lab, r, take)


def kombu(lab: Lab, take: Callable[[Any], Any]) -> None:
    """A may die with its task."""
    seen = lab.redis()
    seen.rpush("celery", "task")
    lab.worker("A", consume, lab, lab.redis(decode_responses=True), take)
    lab.worker("B", restore, lab, lab.redis(decode_responses=True), take, spared=True, forever=True)

    def is_known() -> bool:
        return bool(seen.llen("celery") or seen.hlen("unacked") or lab.mail.count("task"))

    lab.always("a task that nobody has is queued or unacknowledged", lambda: lab.inside("consumer") or is_known())
    lab.at_end("the task is done in the end", lambda: lab.mail.count("task") >= 1)


P19 = Case(
    id="P19",
    title="kombu: to pop a task and to note it as unacknowledged are two steps",
    sources=("https://github.com/celery/kombu/issues/1836", "https://github.com/celery/celery/issues/1789"),
    mechanism="A worker that dies after BRPOP, and before ZADD and HSET, takes the only copy of the task with it.",
    fix="One step that moves the task: here a script that pops it and records it.",
    broken=lambda lab: kombu(lab, pop_then_record),
    fixed=lambda lab: kombu(lab, pop_and_record),
    budgets={"crashes": 1},
    known=3,
)


# ---- P20: a reply that never arrives


def infer(r: Any, fixed: bool) -> None:
    """Take tasks for ever and store their results; after an error, connect again."""
    while True:
        try:
            if fixed:
                task = r.lindex("inflight:A", 0) or r.blmove("ml_tasks", "inflight:A", 0)
            else:
                _, task = r.blpop(["ml_tasks"])
            r.hset("results", task, "image")
            if fixed:
                r.lrem("inflight:A", 1, task)
        except redis.RedisError:
            continue


def dead_connection(lab: Lab, fixed: bool) -> None:
    """One worker, whose connection may fail between a request and its reply."""
    seen = lab.redis()
    seen.rpush("ml_tasks", "task")
    lab.worker("A", infer, lab.redis(decode_responses=True), fixed, forever=True)
    lab.at_end("the task has its result in the end", lambda: seen.hexists("results", "task"))


P20 = Case(
    "P20",
    "modelq: BLPOP is answered into a dead connection",
    ("https://github.com/ModelsLab/modelq/pull/17",),
    "Redis removes the task before it answers; when the answer is lost, no list has the task, and nobody has crashed.",
    "BLMOVE into a list of the worker's own, which it looks at first when it has connected again.",
    *in_both(dead_connection),
    budgets={"lost_replies": 1},
)


# ---- P23: one processing list for all


def index(lab: Lab, r: Any, processing: str) -> None:
    """Move an item to a processing list, index it, and delete the list."""
    item = r.rpoplpush("to_index", processing)
    lab.events.publish(item)
    r.delete(processing)


def index_leftovers(lab: Lab, r: Any, *lists: str) -> None:
    """Later, index what these lists still hold."""
    time.sleep(60)
    for name in lists:
        while item := r.rpop(name):
            lab.events.publish(item)


def indexing(lab: Lab, fixed: bool) -> None:
    """Two workers with an item each, of which one may die."""
    lab.redis().rpush("to_index", "venue", "offer")
    lists = ["processing:A", "processing:B"] if fixed else ["processing", "processing"]
    for name, processing in zip("AB", lists, strict=True):
        lab.worker(name, index, lab, lab.redis(decode_responses=True), processing)
    lab.worker(
        "R", index_leftovers, lab, lab.redis(decode_responses=True), "to_index", *sorted(set(lists)), spared=True
    )
    lab.at_end("each item is indexed", lambda: lab.events.count("venue") >= 1 and lab.events.count("offer") >= 1)


P23 = Case(
    "P23",
    "pass-culture: a processing list that another consumer deletes",
    ("https://github.com/pass-culture/pass-culture-main/pull/8631",),
    "Whoever is done first deletes the list that all share, and with it what a dead worker had left there.",
    "A processing list for each worker, so that nobody deletes but what is its own.",
    *in_both(indexing),
    budgets={"crashes": 1},
)


# ---- P40: a delayed message whose time has come

_PROMOTE = """-- promote if still mine
if redis.call('lrem', KEYS[1], 1, ARGV[1]) == 1 then redis.call('rpush', KEYS[2], ARGV[1]) end
"""


def enqueue_then_ack(r: Any, message: str) -> None:
    """As it is."""
    r.rpush("default", message)
    r.lrem("default.DQ.acks", 1, message)


def ack_then_enqueue(r: Any, message: str) -> None:
    """The other way round."""
    r.lrem("default.DQ.acks", 1, message)
    r.rpush("default", message)


def promote(r: Any, message: str) -> None:
    """Both at once, and only by whoever has the message."""
    r.register_script(_PROMOTE)(["default.DQ.acks", "default"], [message])


def deliver_delayed(r: Any, move: Callable[[Any, str], None]) -> None:
    """Take a message that is due from the delay queue, and move it to the queue proper."""
    message = r.rpoplpush("default.DQ", "default.DQ.acks")
    if message:
        move(r, message)


def maintain(r: Any, move: Callable[[Any, str], None]) -> None:
    """Every minute: requeue what A had, which has given no heartbeat since, and go on with it."""
    for _ in range(2):
        time.sleep(60)
        r.rpoplpush("default.DQ.acks", "default.DQ")
        deliver_delayed(r, move)


def delayed(lab: Lab, move: Callable[[Any, str], None]) -> None:
    """A may die, or be taken for dead."""
    seen = lab.redis()
    seen.rpush("default.DQ", "message")
    lab.worker("A", deliver_delayed, lab.redis(decode_responses=True), move)
    lab.worker("B", maintain, lab.redis(decode_responses=True), move, spared=True)
    lab.always("a delayed message is queued once", lambda: seen.llen("default") <= 1)
    lab.at_end("a delayed message is queued in the end", lambda: seen.llen("default") >= 1)


P40 = Case(
    id="P40",
    title="dramatiq: a delayed message is copied to the queue, and acknowledged after that",
    sources=("https://github.com/Bogdanp/dramatiq/issues/431",),
    mechanism="A worker that is dead, or taken for dead, between the copy and the acknowledgement has it copied again.",
    fix="One script that moves the message, if the worker still has it.",
    broken=partial(delayed, move=enqueue_then_ack),
    fixed=partial(delayed, move=promote),
    budgets={"crashes": 1, "pauses": 1},
)
