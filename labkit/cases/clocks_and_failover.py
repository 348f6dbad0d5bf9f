"""Servers that come back without what they had acknowledged, and clocks that are set back."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from labkit import Lab
from labkit.cases.case import Case
from labkit.lab import Service
from labkit.stores.sql_connection import SqlConnection

# ---- P41: a wait that is computed from a clock which may be set

INTERVAL, LIMIT = 10, 15  # seconds between two check-ins, and after which a node without one counts as dead


def node(lab: Lab, r: Any, clock: Callable[[], float], longest: float) -> None:
    """Run a job for 18 s, and check in meanwhile."""
    done = threading.Event()

    def check_in() -> None:
        while not done.is_set():
            last = clock()
            r.set("checkin:A", "alive", ex=LIMIT)
            done.wait(min(longest, INTERVAL - (clock() - last)))

    threading.Thread(target=check_in).start()
    with lab.section("job"):
        time.sleep(18)
    done.set()


def peer(lab: Lab, r: Any) -> None:
    """Another node: after 16 s, see whether A has checked in, and run its job if it has not."""
    time.sleep(16)
    if not r.exists("checkin:A"):
        with lab.section("job"):
            r.incr("recovered")


def cluster(lab: Lab, clock: Callable[[], float], longest: float = math.inf) -> None:
    """A's wall clock may be set back by an hour. A check-in's age is judged by the server's clock, not by A's.

    Parameters
    ----------
    clock: what A measures the time since its last check-in with.
    longest: how many seconds A waits at most for the next.
    """
    lab.worker("A", node, lab, lab.redis(), clock, longest, jump=-3600)
    lab.worker("B", peer, lab, lab.redis())
    lab.always("one node at a time runs the job", lambda: lab.inside("job") <= 1)


P41 = Case(
    id="P41",
    title="Quartz.NET: a clock that is set back stops the check-in, and peers take over",
    sources=("https://github.com/quartznet/quartznet/pull/3148",),
    mechanism="The next check-in comes after interval - (now - last): when `now` jumps back, an hour later.",
    fix="Wait no longer than the interval, or measure with a clock that nobody sets (`time.monotonic`).",
    broken=lambda lab: cluster(lab, time.time),
    fixed=lambda lab: cluster(lab, time.time, longest=INTERVAL),
    budgets={"jumps": 1},
)


# ---- P37: charge first, record after

LOW, AMOUNT = 10, 100


def charge(payments: Service, db: SqlConnection) -> None:
    """As it was."""
    payments.call("card")


def charge_by_ledger(payments: Service, db: SqlConnection, keyed: bool = True) -> None:
    """Ask the ledger, and not Redis, whether a recharge is due; its number is known before the card is charged."""
    number, balance = db.execute("SELECT recharges, balance FROM ledger").fetchone()
    if balance < LOW:
        payments.call("card", idempotency_key=f"recharge {number}" if keyed else None)
        with db:
            db.execute(
                f"UPDATE ledger SET recharges = recharges + 1, balance = balance + {AMOUNT} WHERE recharges = ?",
                (number,),
            )


def recharge(r: Any, pay: Callable[[], None], arrives: float) -> None:
    """What each call made by the customer sets off: recharge when the balance is low."""
    if arrives:
        time.sleep(arrives)
    if int(r.get("balance") or 0) < LOW:
        pay()
        r.set("balance", AMOUNT)


def billing(lab: Lab, how: Callable[[Service, SqlConnection], None]) -> None:
    """Two calls, a minute apart; a replica of Redis may take over that lacks the last write."""
    payments = lab.service("payments", deduplicates=True)
    lab.sql().execute("CREATE TABLE ledger (recharges INTEGER, balance INTEGER)")
    lab.sql().execute("INSERT INTO ledger VALUES (0, 0)")
    for name, arrives in (("A", 0), ("B", 60)):
        lab.worker(name, recharge, lab.redis(), partial(how, payments, lab.sql()), arrives, spared=name == "B")
    lab.always("the card is charged once", lambda: payments.count() <= 1)


# In the report Redis came back without the balances, and refused to write new ones.
P37 = Case(
    id="P37",
    title="Twilio 2013: the card is charged again when Redis has lost the balance",
    sources=(
        "https://www.twilio.com/blog/2013/07/billing-incident-post-mortem-breakdown-analysis-and-root-cause.html",
        "https://antirez.com/latest/103",
    ),
    mechanism="The card is charged by what Redis says; once it has lost the new balance, each call charges again.",
    fix="A ledger in a database decides; the recharge's number in it, known before the charge, is the idempotency key.",
    broken=lambda lab: billing(lab, charge),
    fixed=lambda lab: billing(lab, charge_by_ledger),
    budgets={"failovers": 1},
)


# ---- P42: an invalidation that is lost


def cached_text(r: Any, db: SqlConnection, key: str) -> str:
    """The text of a template, from the cache if it is there."""
    text: str | None = r.get(key)
    if text is None:
        text = db.execute("SELECT text FROM templates").fetchone()[0]
        r.set(key, text, ex=3600)
    return text


def update(r: Any, db: SqlConnection) -> None:
    """As it was: change the row, then delete the cached copy; an error of Redis must not fail the update."""
    with db:
        db.execute("UPDATE templates SET text = 'new', version = 2")
    with contextlib.suppress(redis.RedisError):
        r.delete("template")


def update_between_deletes(r: Any, db: SqlConnection) -> None:
    """As it was mended: delete the cached copy before too, and do not change the row if that fails."""
    r.delete("template")
    update(r, db)


def send(lab: Lab, r: Any, db: SqlConnection, versioned: bool) -> None:
    """A mail, a minute after the update."""
    time.sleep(60)
    key = "template"
    if versioned:
        key += f":{db.execute('SELECT version FROM templates').fetchone()[0]}"
    lab.mail.send(cached_text(r, db, key))


def invalidation(lab: Lab, change: Callable[[Any, SqlConnection], None], versioned: bool) -> None:
    """A template is changed while its old text is in the cache; what Redis has deleted may come back in a failover."""
    db = lab.sql()
    db.execute("CREATE TABLE templates (text TEXT, version INTEGER)")
    db.execute("INSERT INTO templates VALUES ('old', 1)")
    for key in ("template", "template:1"):
        lab.redis().set(key, "old", ex=3600)
    lab.worker("A", change, lab.redis(), lab.sql())
    lab.worker("B", send, lab, lab.redis(decode_responses=True), lab.sql(), versioned, spared=True)
    lab.always("no mail has the old text after the change", lambda: lab.mail.count("old") == 0)


# In the report the delete fails, since Redis is out of reach. Here it is acknowledged, and then lost in a failover,
# which the mend of the report does not survive: the delete that is lost may be the one before the change.
P42 = Case(
    id="P42",
    title="GOV.UK Notify: a lost invalidation, and the old template is mailed",
    sources=("https://github.com/alphagov/notifications-utils/pull/1120",),
    mechanism="The row is changed, then the cached copy deleted; when that delete is lost, the old text is served on.",
    fix="The version is part of the key, so that nobody reads the old copy; deleting before and after is not enough.",
    broken=lambda lab: invalidation(lab, update, versioned=False),
    fixed=lambda lab: invalidation(lab, update, versioned=True),
    budgets={"failovers": 1},
)
