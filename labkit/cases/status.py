"""A status that is overwritten by somebody who comes late, outlives its time, or is remembered wrongly."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from labkit import Lab
from labkit.cases.case import Case
from labkit.idempotency import (
    GuardedStatusStore,
    OverwritingStatusStore,
    RedisStatusStore,
    SqlStatusStore,
    StateMachine,
    StatusCache,
    TransitionRefused,
    WriteThroughCache,
    transaction,
)
from labkit.idempotency.cache import COPY
from labkit.lab import Service
from labkit.stores.sql_connection import SqlConnection

Store = type[RedisStatusStore]


def state_terminal(lab: Lab, status: Callable[[], Any], terminal: str) -> None:
    """State that a terminal status is reached, and never changes."""
    lab.always("a terminal status stays", lambda before, now: before != terminal or now == terminal, remember=status)
    lab.at_end("the terminal status is reached", lambda: status() == terminal)


# ---- P30: started, finished, and only then noted as running

LAUNCHED = StateMachine((("submitted", "running"), ("submitted", "finished"), ("running", "finished")))


def launch(r: Any, launcher: Service, store: Store) -> None:
    """Start a job, whose end another thread notices, and write that it runs."""

    def write(status: str) -> None:
        with suppress(TransitionRefused):
            store(r, LAUNCHED).compare_and_set("1", status)

    launcher.call("job")
    threading.Thread(target=write, args=("finished",), name="monitor").start()
    write("running")


def launches(lab: Lab, store: Store) -> None:
    """One server, which starts one job."""
    seen = RedisStatusStore(lab.redis(), LAUNCHED)
    seen.begin("1", "submitted")
    lab.worker("R", launch, lab.redis(), lab.service("launcher"), store)
    state_terminal(lab, lambda: seen.get("1"), "finished")


P30 = Case(
    id="P30",
    title="NVFlare: a late RUNNING overwrites the status of a job that has finished",
    sources=("https://github.com/NVIDIA/NVFlare/issues/5301",),
    mechanism="The job is started, then its status written; a job that ends in between says RUNNING for ever.",
    fix="Compare and set along a state machine, in one step: nothing follows a terminal status.",
    broken=lambda lab: launches(lab, OverwritingStatusStore),
    fixed=lambda lab: launches(lab, RedisStatusStore),
    known=3,
)


# ---- 000-i: the guard looks after `completed` only


def write(r: Any, store: Store, status: str) -> None:
    """Set the job's status, if the store lets us."""
    with suppress(TransitionRefused):
        store(r).compare_and_set("1", status)


def redelivery(lab: Lab, starts: Store, completes: Store) -> None:
    """D has done the job and completes it; R has received it again, and starts."""
    seen = RedisStatusStore(lab.redis())
    seen.begin("1", "in-progress")
    lab.worker("D", write, lab.redis(), completes, "completed")
    lab.worker("R", write, lab.redis(), starts, "in-progress")
    state_terminal(lab, lambda: seen.get("1"), "completed")


LATE_START = Case(
    id="000-i",
    title="Article 1, the guard: it keeps `completed` from being written twice, and nothing else",
    sources=(),
    mechanism="Only the function that completes looks at the status; whoever writes `in-progress` overwrites anything.",
    fix="Compare and set along a state machine, in one step, wherever a status is written.",
    broken=lambda lab: redelivery(lab, OverwritingStatusStore, GuardedStatusStore),
    fixed=lambda lab: redelivery(lab, RedisStatusStore, RedisStatusStore),
    known=3,
)


# ---- 000-j: SET drops the time to live

DAY = 86_400


def complete(r: Any, **options: Any) -> None:
    """Write the new status."""
    r.set("job_status:1", "completed", **options)


def expiring(lab: Lab, **options: Any) -> None:
    """The API has written the status for a day; the worker may come late."""
    seen = lab.redis()
    seen.set("job_status:1", "in-progress", ex=DAY)
    lab.worker("A", partial(complete, **options), lab.redis())
    lab.always("a status expires some day", lambda: seen.ttl("job_status:1") != -1)
    lab.at_end("the job is completed in the end", lambda: seen.get("job_status:1") == b"completed")


# KEEPTTL keeps the time to live that there is. Once the key has expired there is none, and the new one stays for ever.
NO_EXPIRY = Case(
    id="000-j",
    title="Article 1, writing the status: SET drops the time to live",
    sources=(),
    mechanism="SET replaces the key, and with it the time to live that whoever made it gave it; the status never goes.",
    fix="A time to live with each SET; KEEPTTL is not enough for a worker that comes when the key has expired.",
    broken=expiring,
    fixed=lambda lab: expiring(lab, ex=DAY),
    budgets={"pauses": 1},
    known=2,
)


# ---- 000-h: the cache and the database


def read(r: Any, db: SqlConnection, cache: type[StatusCache]) -> None:
    """Ask for the status."""
    cache(r, SqlStatusStore(db).get).get("1")


def change(r: Any, db: SqlConnection, cache: type[StatusCache]) -> None:
    """Complete the job, in the database and then in the cache."""
    statuses = SqlStatusStore(db)
    with transaction(db):
        statuses.compare_and_set("1", "completed")
    copies = cache(r, statuses.get)
    if isinstance(copies, WriteThroughCache):
        copies.put("1", "completed")
    else:
        copies.forget("1")


def cached(lab: Lab, cache: type[StatusCache]) -> None:
    """R reads through a cache that has lost the status, while W changes it."""
    seen, statuses = lab.redis(decode_responses=True), SqlStatusStore(lab.sql())
    statuses.create()
    statuses.begin("1", "in-progress")
    lab.worker("R", read, lab.redis(), lab.sql(), cache)
    lab.worker("W", change, lab.redis(), lab.sql(), cache)

    def copy() -> str:
        return str(seen.get("status_cache:1") or "")

    lab.at_end("a cached status is the database's", lambda: copy() in ("", COPY + str(statuses.get("1"))))


STALE_CACHE = Case(
    id="000-h",
    title="Article 1, the fallback: a lost status is read from the database, and put back stale",
    sources=(),
    mechanism="A reader that looked into the database before the change puts the old status over the new one.",
    fix="A reader fills in only if nobody has written since it looked; a writer deletes, after its commit.",
    broken=lambda lab: cached(lab, WriteThroughCache),
    fixed=lambda lab: cached(lab, StatusCache),
    known=5,
    longer="in a database others see the UPDATE after its COMMIT, which is a step of its own",
)


# ---- P31: the original worker comes back after its time-out


def run(db: SqlConnection, me: str, where: str) -> None:
    """Claim the run, unless another has it; work; write the result."""
    claim = "UPDATE runs SET status = 'running', runner = ?, attempt = attempt + 1 WHERE status IN ('new', 'timeout')"
    with transaction(db):
        row = db.execute(f"{claim} RETURNING attempt", (me,)).fetchone()
    if row:
        update = f"UPDATE runs SET status = 'success', result_of = :attempt WHERE {where}"
        with transaction(db):
            db.execute(update, {"id": 1, "me": me, "attempt": row[0]})


def reap_and_run(db: SqlConnection, me: str, where: str) -> None:
    """Mark what still runs after 30 s, then run it again."""
    time.sleep(30)
    with transaction(db):
        db.execute("UPDATE runs SET status = 'timeout' WHERE status = 'running'")
    run(db, me, where)


def timed_out(lab: Lab, where: str) -> None:
    """A may be slow; B marks what has timed out, and runs it again."""
    seen = lab.sql()
    seen.execute("CREATE TABLE runs (id INTEGER, status TEXT, runner TEXT, attempt INTEGER, result_of INTEGER)")
    seen.execute("INSERT INTO runs VALUES (1, 'new', NULL, 0, NULL)")
    lab.worker("A", run, lab.sql(), "A", where)
    lab.worker("B", reap_and_run, lab.sql(), "B", where, spared=True)

    def now() -> tuple[str, int, int | None]:
        status, attempt, result_of = seen.execute("SELECT status, attempt, result_of FROM runs").fetchone()
        return status, attempt, result_of

    lab.always(
        "a run that timed out does not succeed",
        lambda before, after: (before[0], after[0]) != ("timeout", "success"),
        remember=now,
    )
    lab.always("the result is that of the latest attempt", lambda: now()[0] != "success" or now()[1] == now()[2])
    lab.at_end("the run succeeds in the end", lambda: now()[0] == "success")


P31 = Case(
    id="P31",
    title="MatrixOne: the late worker turns TIMEOUT into SUCCESS",
    sources=("https://github.com/matrixorigin/matrixone/pull/25662",),
    mechanism="The run was given up, perhaps to another worker; the first one still updates it by its id alone.",
    fix="Update only what is still running, by this runner, in this attempt.",
    broken=lambda lab: timed_out(lab, "id = :id"),
    fixed=lambda lab: timed_out(lab, "id = :id AND status = 'running' AND runner = :me AND attempt = :attempt"),
    budgets={"pauses": 1},
)


# ---- P35: claims that count as stale by the wall clock

STALE = 300


def pay_out(db: SqlConnection, owned: bool, together: bool, arrives: float) -> None:
    """Claim the payout, unless somebody claimed it in the last five minutes; credit the wallet; complete it."""
    if arrives:
        time.sleep(arrives)
    me, now = uuid.uuid4().hex[:8], int(time.time())
    free = "status = 'pending' OR status = 'claimed' AND claimed_at <= ?"
    with transaction(db):
        claim = f"UPDATE payouts SET status = 'claimed', owner = ?, claimed_at = ? WHERE {free}"
        won = db.execute(claim, (me, now, now - STALE)).rowcount
    if not won:
        return
    completed = "UPDATE payouts SET status = 'completed'" + (" WHERE status = 'claimed' AND owner = ?" if owned else "")
    if together:
        with transaction(db):
            if db.execute(completed, (me,) * owned).rowcount:
                db.execute("UPDATE wallet SET balance = balance + 1")
    else:
        with transaction(db):
            db.execute("UPDATE wallet SET balance = balance + 1")
        with transaction(db):
            db.execute(completed, (me,) * owned)


def payouts(lab: Lab, owned: bool, together: bool, ahead: float = 0) -> None:
    """A may stall; B comes when it is five minutes later by its own clock.

    Parameters
    ----------
    owned: whether a payout is completed only by the owner of the claim.
    together: whether it is completed in one transaction with the credit.
    ahead: by how many seconds B's clock is wrong.
    """
    seen = lab.sql()
    seen.execute("CREATE TABLE payouts (status TEXT, owner TEXT, claimed_at INTEGER)")
    seen.execute("INSERT INTO payouts VALUES ('pending', NULL, NULL)")
    seen.execute("CREATE TABLE wallet (balance INTEGER)")
    seen.execute("INSERT INTO wallet VALUES (0)")
    lab.worker("A", pay_out, lab.sql(), owned, together, 0)
    lab.worker("B", pay_out, lab.sql(), owned, together, STALE - ahead, spared=True, skew=ahead)

    def balance() -> int:
        return int(seen.execute("SELECT balance FROM wallet").fetchone()[0])

    lab.always("the wallet is credited once", lambda: balance() <= 1)
    lab.at_end("the wallet is credited in the end", lambda: balance() >= 1)


P35 = Case(
    id="P35",
    title="Truxify: a claim that looks stale is taken again, and the wallet is credited twice",
    sources=("https://github.com/KanishJebaMathewM/Truxify/issues/13104",),
    mechanism="A claim of five minutes ago is free again, though its owner is slow, not dead; nobody checks the owner.",
    fix="A token for each claim, compared when the payout is completed, in one transaction with the credit.",
    broken=lambda lab: payouts(lab, owned=False, together=False),
    fixed=lambda lab: payouts(lab, owned=True, together=True),
    budgets={"pauses": 1},
)
