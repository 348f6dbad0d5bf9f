"""Scenarios for the taught idempotency parts, the handlers that use them well and badly, and mutants of them."""

import time
import uuid

from labkit.idempotency import (
    JOB,
    Claimed,
    Done,
    GuardedStatusStore,
    IdempotencyRecords,
    Outbox,
    ProcessedEvents,
    RedisStatusStore,
    Relay,
    SqlStatusStore,
    StatusCache,
    WriteThroughCache,
    effect_key,
    transaction,
)
from labkit.locks import AtomicLock

TTL = VISIBILITY = LEASE = 30
DAY = 86_400
ANY = {"crashes": 1, "pauses": 1, "lost_replies": 1}  # what the sound ones must bear, all in one search
KEY = effect_key("order-1", "charge")
STOCK_KEY = effect_key("order-1", "deduct-stock")
EVENT = effect_key("1", "completed")

ONCE = "the effect happens at most once"
KEPT = "a message that is gone has had its effect"
TOLD = "a completed job's event is published in the end"
STAYS = "a terminal status stays"
FRESH = "the cached status is the database's in the end"
LATEST = "a job is not completed by an attempt that was given up"
ALONE = "one owner at a time"


# ---- a message about one order: a queue delivers it again after the visibility timeout, until it is deleted


def first_delivery(handle, r, *world):
    if handle(r, *world):
        r.delete("message")


def redelivery(handle, times, r, *world):
    for _ in range(times):
        time.sleep(VISIBILITY)
        if not r.exists("message"):
            return
        first_delivery(handle, r, *world)


def message(handle, deduplicates=False, times=1, others="", lock=False):
    """A has just received the message, B gets it again, spared; others may too; a lock may be taken by L."""

    def scenario(lab):
        db, r = lab.sql(), lab.redis()
        tables(db)
        r.set("message", "order-1")
        payments = lab.service("payments", deduplicates)
        lab.worker("A", first_delivery, handle, lab.redis(), lab.sql(), payments)
        for name in others:
            lab.worker(name, redelivery, handle, 1, lab.redis(), lab.sql(), payments)
        if lock:
            lab.worker("L", hold_lock, lab.redis())
        lab.worker("B", redelivery, handle, times, lab.redis(), lab.sql(), payments, spared=True)
        lab.deadlines(IdempotencyRecords(db).deadlines)
        # The effects of an order are one payment or, for handlers that pay nothing, one mug sold.
        lab.always(ONCE, lambda: payments.count() <= 1 and sold(db) <= 1)
        lab.always(KEPT, lambda: r.exists("message") or payments.count() + sold(db) > 0)
        lab.at_end("the effect happens in the end", lambda: payments.count() + sold(db) > 0)

    return scenario


def tables(db):
    for kind in (ProcessedEvents, IdempotencyRecords, Outbox, SqlStatusStore):
        kind(db).create()
    db.execute("CREATE TABLE stock (sold INTEGER)")
    db.execute("INSERT INTO stock VALUES (0)")


def sold(db):
    return db.execute("SELECT sold FROM stock").fetchone()[0]


def sell(db):
    db.execute("UPDATE stock SET sold = sold + 1")


def hold_lock(r):
    lock = AtomicLock(r, "customer", timeout=LEASE)
    if lock.acquire(blocking=False):
        r.incr("data")
        lock.release()


def key_first(r, db, payments):
    with transaction(db):
        won = ProcessedEvents(db).claim(KEY)
    if won:
        payments.call("order-1")
    return True


def payment_inside(r, db, payments):
    with transaction(db):
        if ProcessedEvents(db).claim(KEY):
            payments.call("order-1")
    return True


def payment_inside_with_its_key(r, db, payments):
    with transaction(db):
        if ProcessedEvents(db).claim(KEY):
            payments.call("order-1", idempotency_key=KEY)
    return True


def stock_inside(r, db, payments, kind=ProcessedEvents):
    with transaction(db):
        if kind(db).claim(STOCK_KEY):
            sell(db)
    return True


def payment_then_status(r, db, payments):
    payments.call("order-1")
    with transaction(db):
        SqlStatusStore(db).compare_and_set("1", "completed")
    return True


def claim_then(effect, kind=IdempotencyRecords, key_of=lambda owner: KEY, done=(Done,)):
    """A handler that claims a record, has the effect with a key for the service, and completes the record."""

    def handle(r, db, payments):
        records, owner = kind(db), uuid.uuid4().hex
        with transaction(db):
            answer = records.claim(KEY, owner, LEASE)
        if not isinstance(answer, Claimed):
            return isinstance(answer, done)
        return effect(r, db, payments, records, owner, key_of(owner))

    return handle


def pay(r, db, payments, records, owner, key):
    payments.call("order-1", idempotency_key=key)
    with transaction(db):
        records.complete(KEY, owner, "charged")
    return True


def sell_inside(r, db, payments, records, owner, key):
    with transaction(db):
        sell(db)
        records.complete(KEY, owner, "sold")
    return True


def key_then_lock(r, db, payments):
    with transaction(db):
        won = ProcessedEvents(db).claim(KEY)
    if won:
        with AtomicLock(r, "customer", timeout=LEASE, blocking=False):  # LockError when it is taken
            payments.call("order-1")
    return True


def lock_then_key(r, db, payments):
    with AtomicLock(r, "customer", timeout=LEASE, blocking=False):
        return key_first(r, db, payments)


def pay_under_the_lock(r, db, payments, records, owner, key):
    lock = AtomicLock(r, "customer", timeout=LEASE)
    if not lock.acquire(blocking=False):
        with transaction(db):
            records.release(KEY, owner)
        return False
    pay(r, db, payments, records, owner, key)
    lock.release()
    return True


# ---- one event, two effects


def two_effects(handle, times=1):
    """As `message`, for a mail and a mug."""

    def scenario(lab):
        db, r, mailer = lab.sql(), lab.redis(), lab.service("mailer", deduplicates=True)
        tables(db)
        r.set("message", "order-1")
        lab.worker("A", first_delivery, handle, lab.redis(), lab.sql(), mailer)
        lab.worker("B", redelivery, handle, times, lab.redis(), lab.sql(), mailer, spared=True)
        lab.always(ONCE, lambda: mailer.count() <= 1 and sold(db) <= 1)
        lab.always(KEPT, lambda: r.exists("message") or (mailer.count(), sold(db)) == (1, 1))

    return scenario


def one_key_for_both(r, db, mailer):
    with transaction(db):
        won = ProcessedEvents(db).claim("event-1")
    if won:
        mailer.call("order-1")
        with transaction(db):
            sell(db)
    return True


def a_key_for_each(r, db, mailer):
    mailer.call("order-1", idempotency_key=effect_key("order-1", "mail"))
    return stock_inside(r, db, mailer)


# ---- claims that come late, and keys that are purged


def late_release(kind, owner=None):
    """A cannot do the effect and releases its claim, perhaps late; B and C come when its lease may have ended."""

    def scenario(lab):
        tables(lab.sql())
        lab.worker("A", claim_and_release, kind, lab.sql())
        for name in "BC":
            lab.worker(name, claim_later, kind, owner, lab.sql(), lab.section, spared=True)
        lab.always(ALONE, lambda: lab.inside("effect") <= 1)

    return scenario


def claim_and_release(kind, db):
    with transaction(db):
        kind(db).claim(KEY, "worker", LEASE)
    with transaction(db):
        kind(db).release(KEY, "worker")


def claim_later(kind, owner, db, section):
    time.sleep(LEASE)
    owner = owner or uuid.uuid4().hex
    with transaction(db):
        answer = kind(db).claim(KEY, owner, LEASE)
    if isinstance(answer, Claimed):
        with section("effect"), transaction(db):
            kind(db).complete(KEY, owner)


def purged(horizon):
    """B purges keys after a day; A gets the message again, from the dead letters, after two."""

    def scenario(lab):
        tables(lab.sql())
        lab.worker("A", deliver_after_two_days, lab.redis(), lab.sql(), lab.mail)
        lab.worker("B", purge_after_a_day, horizon, lab.sql())
        lab.always(ONCE, lambda: lab.mail.count() <= 1)

    return scenario


def deliver_after_two_days(r, db, mail):
    key_first(r, db, mail)
    time.sleep(2 * DAY)
    key_first(r, db, mail)


def purge_after_a_day(horizon, db):
    time.sleep(DAY)
    with transaction(db):
        ProcessedEvents(db, horizon=horizon).purge(older_than=horizon)


# ---- a job's status and its event


def job_in_progress(lab):
    db = lab.sql()
    tables(db)
    SqlStatusStore(db).begin("1", "in-progress")
    lab.redis().set("job_status:1", "in-progress")
    return db


def completion(complete, relays=False):
    """A completes job 1; B, spared, tries again later, and may then relay the outbox."""

    def scenario(lab):
        job_in_progress(lab)
        lab.worker("A", complete, lab.redis(), lab.sql(), lab.events)
        lab.worker("B", complete_again, complete, relays, lab.redis(), lab.sql(), lab.events, spared=True)
        lab.always(ONCE, lambda: lab.events.count() <= 1)
        lab.at_end(TOLD, lambda: lab.events.count() > 0)

    return scenario


def complete_again(complete, relays, r, db, events):
    time.sleep(VISIBILITY)
    complete(r, db, events)
    if relays:
        relay_once(Relay, db, events)


def relay_once(kind, db, events):
    kind(Outbox(db), lambda event: events.publish(event.id)).run_once()


def two_complete(complete, evicted=False):
    """A and B both complete job 1; E may evict its status from Redis; R, spared, relays the outbox later."""

    def scenario(lab):
        job_in_progress(lab)
        for name in "AB":
            lab.worker(name, complete, lab.redis(), lab.sql(), lab.events)
        if evicted:
            lab.worker("E", evict, lab.redis())
        for name, seconds in (("R", LEASE), ("S", 2 * LEASE)):
            lab.worker(name, relay_later, Relay, seconds, lab.sql(), lab.events, spared=True)
        lab.always(ONCE, lambda: lab.events.count() <= 1)

    return scenario


def evict(r):
    r.delete("job_status:1")


def relay_later(kind, seconds, db, events):
    time.sleep(seconds)
    relay_once(kind, db, events)


def sql_status_then_publish(r, db, events):
    with transaction(db):
        changed = SqlStatusStore(db).compare_and_set("1", "completed")
    if changed:
        events.publish("1")


def redis_status_then_publish(r, db, events, kind=RedisStatusStore):
    if kind(r).compare_and_set("1", "completed"):
        events.publish("1")


def guarded_status_then_publish(r, db, events):
    redis_status_then_publish(r, db, events, GuardedStatusStore)


def guarded_under_a_lock(r, db, events):
    lock = AtomicLock(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        guarded_status_then_publish(r, db, events)
        lock.release()


def status_with_outbox(r, db, events):
    with transaction(db):
        if SqlStatusStore(db).compare_and_set("1", "completed"):
            Outbox(db).add(EVENT, {"job": "1"})


def status_then_outbox(r, db, events):
    with transaction(db):
        changed = SqlStatusStore(db).compare_and_set("1", "completed")
    if changed:
        with transaction(db):
            Outbox(db).add(EVENT, {"job": "1"})


def relayed(kind):
    """A relays the event of job 1, and B, spared, what is left later."""

    def scenario(lab):
        status_with_outbox(lab.redis(), job_in_progress(lab), lab.events)
        lab.worker("A", relay_once, kind, lab.sql(), lab.events)
        lab.worker("B", relay_later, kind, LEASE, lab.sql(), lab.events, spared=True)
        lab.always(ONCE, lambda: lab.events.count() <= 1)
        lab.at_end(TOLD, lambda: lab.events.count() > 0)

    return scenario


def consumed(handle):
    """A relays to a consumer's inbox, and B, spared, what is left later; C, spared, then works off the inbox."""

    def scenario(lab):
        db = job_in_progress(lab)
        status_with_outbox(lab.redis(), db, lab.events)
        lab.worker("A", relay_to_inbox, 0, lab.redis(), lab.sql())
        lab.worker("B", relay_to_inbox, LEASE, lab.redis(), lab.sql(), spared=True)
        lab.worker("C", consume, handle, lab.redis(), lab.sql(), spared=True)
        lab.at_end("the consumer does it once", lambda: sold(db) == 1)

    return scenario


def relay_to_inbox(seconds, r, db):
    time.sleep(seconds)
    Relay(Outbox(db), lambda event: r.rpush("inbox", event.id)).run_once()


def consume(handle, r, db):
    time.sleep(2 * LEASE)
    for event_id in r.lrange("inbox", 0, -1):
        with transaction(db):
            handle(event_id.decode(), db)


def sell_for_each(event_id, db):
    sell(db)


def sell_once_for_each(event_id, db):
    if ProcessedEvents(db).claim(event_id):
        sell(db)


# ---- statuses that come late


def late_status(kind):
    """A starts job 1, perhaps late; B completes it."""

    def scenario(lab):
        r = lab.redis()
        kind(r).begin("1", "pending")
        kind(r).compare_and_set("1", "in-progress")
        lab.worker("A", set_status, kind, "in-progress", lab.redis())
        lab.worker("B", set_status, kind, "completed", lab.redis())
        lab.always(STAYS, terminal_stays, remember=lambda: RedisStatusStore(r).get("1"))

    return scenario


def set_status(kind, status, r):
    kind(r).compare_and_set("1", status)


def terminal_stays(before, now):
    return before not in JOB.terminal or now == before


def attempts(kind):
    """A takes 45 s for job 1; after 30 s B puts it back and makes a second attempt, of 45 s too."""

    def scenario(lab):
        db = lab.sql()
        tables(db)
        kind(db).begin("1", "pending")
        lab.worker("A", attempt, kind, ("in-progress",), 0, "first attempt", lab.sql(), lab.section)
        later = ("pending", "in-progress")
        lab.worker("B", attempt, kind, later, VISIBILITY, "second attempt", lab.sql(), lab.section)
        lab.always(LATEST, lambda: not (lab.inside("second attempt") and kind(db).get("1") == "completed"))

    return scenario


def attempt(kind, first_statuses, seconds, name, db, section):
    if seconds:
        time.sleep(seconds)
    for status in first_statuses:
        with transaction(db):
            kind(db).compare_and_set("1", status)
    with section(name):
        time.sleep(45)
    with transaction(db):
        kind(db).compare_and_set("1", "completed")


# ---- the cache


def cached(kind, write=None):
    """A reads the status of job 1 through the cache while B completes it."""

    def scenario(lab):
        db, r = job_in_progress(lab), lab.redis()
        lab.worker("A", read_status, kind, lab.redis(), lab.sql())
        lab.worker("B", write or write_status, kind, lab.redis(), lab.sql())
        lab.at_end(FRESH, lambda: copy_of_status(r) in (None, SqlStatusStore(db).get("1")))

    return scenario


def cached_for(ttl):
    """The same, and C, spared, reads it a minute later."""

    def scenario(lab):
        job_in_progress(lab)
        alarm = lab.service("alarm")
        lab.worker("A", read_status, StatusCache, lab.redis(), lab.sql(), ttl)
        lab.worker("B", write_status, StatusCache, lab.redis(), lab.sql(), ttl)
        lab.worker("C", read_later, ttl, lab.redis(), lab.sql(), alarm, spared=True)
        lab.always("nobody reads an old status after a minute", lambda: not alarm.count())

    return scenario


def copy_of_status(r):
    found = (r.get("status_cache:1") or b"").decode()
    return found.removeprefix("=") if found.startswith("=") else None


def read_status(kind, r, db, ttl=TTL):
    return kind(r, SqlStatusStore(db).get, ttl).get("1")


def write_status(kind, r, db, ttl=TTL):
    cache = kind(r, SqlStatusStore(db).get, ttl)
    try:
        with transaction(db):
            SqlStatusStore(db).compare_and_set("1", "completed")
    finally:
        if kind is WriteThroughCache:
            cache.put("1", "completed")
        else:
            cache.forget("1")


def forget_only_when_sure(kind, r, db):
    with transaction(db):
        SqlStatusStore(db).compare_and_set("1", "completed")
    kind(r, SqlStatusStore(db).get, TTL).forget("1")


def forget_before_the_commit(kind, r, db):
    with transaction(db):
        SqlStatusStore(db).compare_and_set("1", "completed")
        kind(r, SqlStatusStore(db).get, TTL).forget("1")


def read_later(ttl, r, db, alarm):
    time.sleep(60)
    if read_status(StatusCache, r, db, ttl) != SqlStatusStore(db).get("1"):
        alarm.call("old status")


# ---- mutants: each lacks one thing


class LooksFirst(ProcessedEvents):
    """It looks for the key, then inserts it."""

    def claim(self, key, now=None):
        absent = self.execute("SELECT 1 FROM processed_events WHERE effect_key = ?", key).fetchone() is None
        super().claim(key, now)
        return absent


class AnybodyReleases(IdempotencyRecords):
    """A claim is released by whoever asks."""

    def release(self, key, owner):
        return self.execute("DELETE FROM idempotency_records WHERE effect_key = ?", key).rowcount == 1


class AnybodyCompletes(IdempotencyRecords):
    """A claim is completed by whoever asks, and again."""

    def complete(self, key, owner, result=None):
        self.execute("UPDATE idempotency_records SET result = '1' WHERE effect_key = ?", key)


class Impatient(IdempotencyRecords):
    """A claim is taken over before its lease has ended."""

    def claim(self, key, owner, lease, now=None):
        self.execute("DELETE FROM idempotency_records WHERE effect_key = ? AND result IS NULL", key)
        return super().claim(key, owner, lease, now)


class Forgetful(IdempotencyRecords):
    """A completed record is claimed again when its lease has ended."""

    def claim(self, key, owner, lease, now=None):
        self.execute("DELETE FROM idempotency_records WHERE lease_until <= ?", round(time.time() * 1000))
        return super().claim(key, owner, lease, now)


class Tolerant(IdempotencyRecords):
    """A claim never ends."""

    def claim(self, key, owner, lease, now=None):
        return super().claim(key, owner, 1_000 * lease, now)
