"""Leases that end while their holder still works: it was slow, its heartbeat stopped, or its renewal failed unheard."""

from __future__ import annotations

import time
import uuid
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from labkit import Lab
from labkit.cases.case import Case, in_both
from labkit.lab import Service
from labkit.locks import AtomicLock, Renewal
from labkit.stores.sql_connection import SqlConnection

LEASE = 30


# ---- P04: a scheduler's lock that is shorter than its round

_MOVE = """-- move if scheduled
if redis.call('zrem', KEYS[1], ARGV[1]) == 1 then redis.call('rpush', KEYS[2], ARGV[1]) end
"""


def schedule(r: Any, fixed: bool) -> None:
    """One round of a scheduler: move what is due into the queue, under a lock that ends after interval + 10 s."""
    if not r.set("rq:scheduler_lock", "now", nx=True, ex=15):
        return
    for job in r.zrangebyscore("rq:scheduled_jobs", 0, 0):
        if fixed:
            r.register_script(_MOVE)(["rq:scheduled_jobs", "rq:queue"], [job])
        else:
            r.rpush("rq:queue", job)
            r.zrem("rq:scheduled_jobs", job)
    r.delete("rq:scheduler_lock")


def schedulers(lab: Lab, fixed: bool) -> None:
    """Two schedulers and one job that is due."""
    seen = lab.redis()
    seen.zadd("rq:scheduled_jobs", {"report": 0})
    for name in "AB":
        lab.worker(name, schedule, lab.redis(), fixed)
    lab.always("a scheduled job is queued once", lambda: seen.llen("rq:queue") <= 1)


P04 = Case(
    "P04",
    "rq-scheduler: the lock ends while jobs are still being queued",
    ("https://github.com/rq/rq-scheduler/issues/229", "https://github.com/rq/rq-scheduler/issues/312"),
    "A round that takes longer than the lock lets a second scheduler queue what the first is about to queue.",
    "Whoever removes the job from the schedule queues it, both in one script; the lock only saves work.",
    *in_both(schedulers),
    budgets={"pauses": 1},
)


# ---- P05: a heartbeat that stops during native code

_FETCH = """-- fetch
local id = redis.call('lpop', KEYS[1])
if id then redis.call('sadd', KEYS[2], id) end
return id
"""
_REQUEUE_DEAD = """-- requeue what a dead worker had
if redis.call('exists', KEYS[3]) == 1 then return end
local ids = redis.call('smembers', KEYS[2])
table.sort(ids)
for _, id in ipairs(ids) do redis.call('rpush', KEYS[1], id) end
redis.call('del', KEYS[2])
"""
_REQUEUE_OWN = """-- requeue if still mine
if redis.call('srem', KEYS[2], ARGV[1]) == 1 then redis.call('rpush', KEYS[1], ARGV[1]) end
"""


def fetch(r: Any, worker: str) -> Any:
    """Take a message from the queue into the worker's own set."""
    return r.register_script(_FETCH)(["queue", f"acks:{worker}"])


def native_call(r: Any, orders: Service, owned: bool, keyed: bool) -> None:
    """Prefetch two messages, spend 61 s on the first without a heartbeat, and give back the second at shutdown."""
    r.set("heartbeat:A", 1, ex=60)
    first, second = fetch(r, "A"), fetch(r, "A")
    time.sleep(61)
    orders.call(first, idempotency_key=first if keyed else None)
    r.srem("acks:A", first)
    if owned:
        r.register_script(_REQUEUE_OWN)(["queue", "acks:A"], [second])
    else:
        r.rpush("queue", second)


def maintain(r: Any) -> None:
    """What any worker's command does now and then: look for dead workers."""
    time.sleep(60)
    r.register_script(_REQUEUE_DEAD)(["queue", "acks:A", "heartbeat:A"])


def take_over(r: Any, orders: Service, keyed: bool) -> None:
    """Another worker, when A has long been taken for dead."""
    time.sleep(62)
    found = fetch(r, "B")
    if found:
        orders.call(found, idempotency_key=found if keyed else None)
        r.srem("acks:B", found)


def heartbeats(lab: Lab, owned: bool, keyed: bool) -> None:
    """A works in native code, M looks for dead workers, B takes what is queued again.

    Parameters
    ----------
    owned: whether A gives back only what is still in its own set.
    keyed: whether orders carry an idempotency key.
    """
    seen, orders = lab.redis(), lab.service("orders", deduplicates=True)
    seen.rpush("queue", "m1", "m2")
    lab.worker("A", native_call, lab.redis(decode_responses=True), orders, owned, keyed)
    lab.worker("M", maintain, lab.redis())
    lab.worker("B", take_over, lab.redis(decode_responses=True), orders, keyed)

    def is_once_each(queued: list[Any]) -> bool:
        return len(queued) == len(set(queued))

    lab.always("no message is queued twice", lambda: is_once_each(seen.lrange("queue", 0, -1)))
    lab.always("an order is placed once", lambda: orders.count("m1") <= 1)


P05 = Case(
    id="P05",
    title="Dramatiq: a native call stops the heartbeat, and the worker is taken for dead",
    sources=("https://github.com/Bogdanp/dramatiq/issues/692", "https://github.com/Bogdanp/dramatiq/issues/266"),
    mechanism="Native code lets no heartbeat run, so what the worker has is queued again while it works on it.",
    fix="Give back only what is still in one's own set; and an idempotency key, since nothing can stop the second run.",
    broken=lambda lab: heartbeats(lab, owned=False, keyed=False),
    fixed=lambda lab: heartbeats(lab, owned=True, keyed=True),
)


# ---- P06: renewal and work on one event loop

_CHECK_STALLED = """-- check stalled
local wait, active, stalled, lock = unpack(KEYS)
for _, id in ipairs(redis.call('smembers', stalled)) do
  if redis.call('exists', lock .. id) == 0 and redis.call('lrem', active, 1, id) == 1 then
    redis.call('rpush', wait, id)
  end
end
redis.call('del', stalled)
for _, id in ipairs(redis.call('lrange', active, 0, -1)) do redis.call('sadd', stalled, id) end
"""


def process(lab: Lab, r: Any, fixed: bool) -> None:
    """Take a job and its lock, be busy for 40 s, and finish it with the lock's token."""
    job = r.blmove("wait", "active", 0)
    lock = AtomicLock(r, f"lock:{job}", timeout=LEASE)
    lock.acquire(blocking=False)
    renewal: AbstractContextManager[object] = Renewal(lock) if fixed else nullcontext()
    with renewal, lab.section("job"):
        time.sleep(40)
        lab.mail.send(job)
    lock.release()
    r.lrem("active", 1, job)


def check_stalled(r: Any) -> None:
    """Every 30 s: what was active in the last pass, and has no lock, waits again."""
    for _ in range(3):
        r.register_script(_CHECK_STALLED)(["wait", "active", "stalled", "lock:"])
        time.sleep(30)


def stalled_jobs(lab: Lab, fixed: bool) -> None:
    """Two workers, one job, and K, who looks for stalled jobs."""
    lab.redis().rpush("wait", "report")
    for name in "AB":
        lab.worker(name, process, lab, lab.redis(decode_responses=True), fixed, forever=True)
    lab.worker("K", check_stalled, lab.redis())
    lab.always("one worker at a time has the job", lambda: lab.inside("job") <= 1)
    lab.always("the job takes effect once", lambda: lab.mail.count("report") <= 1)


P06 = Case(
    "P06",
    "Bull: a busy event loop does not renew the lock, and the job counts as stalled",
    (
        "https://github.com/OptimalBits/bull/issues/308",
        "https://github.com/taskforcesh/bullmq/issues/3183",
        "https://github.com/OptimalBits/bull/issues/1416",
    ),
    "The timer that renews the lock waits for the job, so the lock ends and a second worker is given the job.",
    "Renew from another thread; where the whole process may be paused, the effect must be idempotent as well.",
    *in_both(stalled_jobs),
)


# ---- P07: a renewal that fails and tells nobody


def two_steps(lab: Lab, r: Any, fixed: bool) -> None:
    """A job of two steps under a lock that a thread renews every 10 s."""
    lock = AtomicLock(r, "lock", timeout=LEASE)
    lock.acquire()
    with Renewal(lock) as renewal:
        for _ in range(2):
            if fixed:
                renewal.check()
            lab.mail.send("A")
            time.sleep(45)
    lock.release()


def another_job(lab: Lab, r: Any) -> None:
    """A short job that comes when the first one is between its steps, and needs the lock."""
    time.sleep(42)
    lock = AtomicLock(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        lab.mail.send("B")
        time.sleep(5)
        lock.release()


def unheard(lab: Lab, fixed: bool) -> None:
    """A reply to A may be lost, such as that to a renewal."""
    lab.worker("A", two_steps, lab, lab.redis(), fixed)
    lab.worker("B", another_job, lab, lab.redis(), spared=True)

    def order() -> str:
        return "".join(call.key for call in lab.mail.calls)

    lab.always("A takes no step once B has begun", lambda: "BA" not in order())


P07 = Case(
    "P07",
    "python-redis-lock: the renewal thread dies and nobody hears of it",
    ("https://github.com/ionelmc/python-redis-lock/issues/85",),
    "An error ends the thread that renews the lock; the job goes on without it, and learns of it at the release.",
    "The renewal says that it failed, and the job asks before each effect; a paused job needs a fencing token too.",
    *in_both(unheard),
    budgets={"lost_replies": 1},
)


# ---- P32: an owner's name that is the same for two attempts


def attempt(r: Any, db: SqlConnection, fixed: bool) -> None:
    """Take a run from the queue, claim it, and write its result if it is still ours, as far as we can tell."""
    r.blpop(["runs"])
    me = uuid.uuid4().hex if fixed else "host-1-worker-0"
    claim = "UPDATE runs SET status = 'running', owner = ?, attempt = attempt + 1 WHERE status = 'pending'"
    with db:
        claimed = db.execute(f"{claim} RETURNING attempt", (me,)).fetchone()
    if claimed:
        with db:
            db.execute("UPDATE runs SET status = 'success', result_of = ? WHERE owner = ?", (*claimed, me))


def reap(r: Any, db: SqlConnection) -> None:
    """When the first lease has ended, queue the run again."""
    time.sleep(LEASE)
    with db:
        reaped = db.execute("UPDATE runs SET status = 'pending', owner = NULL WHERE status = 'running'").rowcount
    if reaped:
        r.rpush("runs", "run-1")


def attempts(lab: Lab, fixed: bool) -> None:
    """Two tasks of one worker, A and B; one may stall until its lease has ended and the run was given out again."""
    seen = lab.sql()
    seen.execute("CREATE TABLE runs (status TEXT, owner TEXT, attempt INTEGER, result_of INTEGER)")
    seen.execute("INSERT INTO runs VALUES ('pending', NULL, 0, NULL)")
    lab.redis().rpush("runs", "run-1")
    for name in "AB":
        lab.worker(name, attempt, lab.redis(), lab.sql(), fixed, forever=True)
    lab.worker("reaper", reap, lab.redis(), lab.sql(), spared=True)
    stale = "SELECT * FROM runs WHERE status = 'success' AND result_of <> attempt"
    lab.always("the result is that of the latest attempt", lambda: not seen.execute(stale).fetchall())


P32 = Case(
    "P32",
    "aegra: the owner's name is no token",
    ("https://github.com/aegra/aegra/pull/547",),
    "All attempts of a worker claim under its name, so a stale one passes every check and overwrites its replacement.",
    "A token that is new for each claim, compared in every later write.",
    *in_both(attempts),
    budgets={"pauses": 1},
)
