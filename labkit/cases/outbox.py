"""Events that are lost between a change and its event, or between an outbox and whom it tells."""

from __future__ import annotations

import time
from collections.abc import Callable

from labkit import Lab
from labkit.cases.case import Case
from labkit.idempotency import transaction
from labkit.lab import Service
from labkit.stores.sql_connection import SqlConnection

EVENT = "mail-1 sent"
SENT = "UPDATE mails SET status = 'sent' WHERE id = 'mail-1'"
INSERT = "INSERT INTO outbox VALUES (?)"
DELETE = "DELETE FROM outbox WHERE event = ?"
Change = Callable[[SqlConnection], None]
Relay = Callable[[SqlConnection, Service, bool], None]


def change_then_event(db: SqlConnection) -> None:
    """Two transactions: the mail was sent; and its event."""
    with transaction(db):
        db.execute(SENT)
    with transaction(db):
        db.execute(INSERT, (EVENT,))


def change_with_event(db: SqlConnection) -> None:
    """The same in one transaction."""
    with transaction(db):
        db.execute(SENT)
        db.execute(INSERT, (EVENT,))


def delete_then_publish(db: SqlConnection, bus: Service, keyed: bool) -> None:
    """Take each event out of the outbox, then publish it."""
    for (event,) in db.execute("SELECT event FROM outbox"):
        with transaction(db):
            db.execute(DELETE, (event,))
        bus.call(event, idempotency_key=event if keyed else None)


def publish_then_delete(db: SqlConnection, bus: Service, keyed: bool) -> None:
    """Publish each event in the outbox, then take it out."""
    for (event,) in db.execute("SELECT event FROM outbox"):
        bus.call(event, idempotency_key=event if keyed else None)
        with transaction(db):
            db.execute(DELETE, (event,))


def work(db: SqlConnection, bus: Service, change: Change, relay: Relay, keyed: bool) -> None:
    """Change something, and publish the event at once."""
    change(db)
    relay(db, bus, keyed)


def sweep(db: SqlConnection, bus: Service, relay: Relay, keyed: bool) -> None:
    """A minute later, publish what is left in the outbox."""
    time.sleep(60)
    relay(db, bus, keyed)


def outbox(lab: Lab, change: Change, relay: Relay, keyed: bool = True) -> None:
    """A may die; S sweeps the outbox later.

    Parameters
    ----------
    change: how the change and its event are written.
    relay: how the outbox is emptied.
    keyed: whether consumers are told an event's id, and take it once.
    """
    db, bus = lab.sql(), lab.service("bus", deduplicates=True)
    db.execute("CREATE TABLE mails (id TEXT, status TEXT)")
    db.execute("INSERT INTO mails VALUES ('mail-1', 'queued')")
    db.execute("CREATE TABLE outbox (event TEXT)")
    lab.worker("A", work, lab.sql(), bus, change, relay, keyed)
    lab.worker("S", sweep, lab.sql(), bus, relay, keyed, spared=True)

    def is_sent() -> bool:
        return bool(db.execute("SELECT 1 FROM mails WHERE status = 'sent'").fetchall())

    lab.always("an event is published once", lambda: bus.count() <= 1)
    lab.at_end("a mail that was sent has its event", lambda: not is_sent() or bus.count() >= 1)


P25 = Case(
    id="P25",
    title="civitai: an event is taken out of the outbox before its handlers run",
    sources=("https://github.com/civitai/civitai/pull/3275",),
    mechanism="The fast path deletes the row, then runs the handlers; when they fail, nothing is left for the poller.",
    fix="Run the handlers, then delete the row; and since a crash may come in between, they must be idempotent.",
    broken=lambda lab: outbox(lab, change_with_event, delete_then_publish),
    fixed=lambda lab: outbox(lab, change_with_event, publish_then_delete),
    budgets={"crashes": 1},
)

P39 = Case(
    id="P39",
    title="bunmail, gofastr and others: the status is committed, and its event lost",
    sources=(
        "https://github.com/mohamedboukari/bunmail/issues/184",
        "https://github.com/DonaldMurillo/gofastr/issues/25",
        "https://github.com/kbastani/event-sourcing-microservices-example/issues/28",
    ),
    mechanism="The change and its event are two transactions; who dies in between leaves a change nobody hears of.",
    fix="The event is inserted in the transaction of the change; a relay publishes it, and consumers know its id.",
    broken=lambda lab: outbox(lab, change_then_event, publish_then_delete),
    fixed=lambda lab: outbox(lab, change_with_event, publish_then_delete),
    budgets={"crashes": 1},
    known=5,
)
