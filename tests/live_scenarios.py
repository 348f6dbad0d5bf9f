"""Scenarios that tests run both in the lab and for real; where an order matters, workers hand over to each other."""

import signal
import threading
import time

import redis

from labkit.idempotency import Outbox, Relay, SqlStatusStore, transaction
from labkit.locks import AtomicLock
from labkit.queues import VisibilityQueue


def one_after_the_other(lab):
    """B waits until A has done its part: one order only, in the lab and anywhere."""

    def first(r, mail):
        r.set("status", "completed", nx=True)
        r.hset("order", mapping={"pieces": 1})
        mail.send("order-1")
        print("A hands over")
        r.rpush("turn", "B")

    def second(r, mail):
        r.blpop("turn", timeout=30)
        if r.get("status") != b"completed":
            mail.send("order-1")
        r.set("lock", "B", nx=True, px=30_000)
        with lab.section("inside"):
            r.incr("done")
        r.delete("lock")

    lab.worker("A", first, lab.redis(), lab.mail)
    lab.worker("B", second, lab.redis(), lab.mail)
    observer = lab.redis()
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)
    lab.always("one inside", lambda: lab.inside("inside") <= 1)
    lab.at_end("B was there", lambda: observer.get("done") == b"1")


def tables(lab):
    """Two workers at one table, whose set-up has replies of every kind."""
    db, r = lab.sql(), lab.redis()
    db.execute("CREATE TABLE t (n INTEGER)")
    db.execute("INSERT INTO t VALUES (0)")
    assert db.execute("SELECT n FROM t").fetchone() == (0,)
    r.register_script("return {1, 'two', false}")()

    def add(db):
        with transaction(db):
            db.execute("UPDATE t SET n = n + 1")

    for name in "AB":
        lab.worker(name, add, lab.sql())
    lab.at_end("both were there", lambda: db.execute("SELECT n FROM t").fetchone() == (2,))


def two_mails(lab):
    """Nobody asks whether the other has sent it."""
    for name in "AB":
        lab.worker(name, lambda mail: mail.send("order-1"), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)


def endless(lab):
    """Two workers that come to no end by themselves, one of which does not listen to SIGTERM."""

    def work(r, listens):
        if not listens:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        r.set("begun", 1)
        while True:
            if r.incr("rounds") == 4:
                r.rpush("four rounds", 1)
            time.sleep(0.05)

    for name in "AB":
        lab.worker(name, work, lab.redis(), name == "A")


def both_inside(lab):
    """Two workers in one section, each of which waits there for the other."""

    def work(name, r):
        with lab.section("stock"):
            r.rpush(f"here:{name}", "x")
            r.blpop(f"here:{'B' if name == 'A' else 'A'}", timeout=30)

    for name in "AB":
        lab.worker(name, work, name, lab.redis())
    lab.always("one inside", lambda: lab.inside("stock") <= 1)


def one_key(deduplicates):
    """Two attempts with one idempotency key."""

    def scenario(lab):
        payments = lab.service("payments", deduplicates=deduplicates)
        for name in "AB":
            lab.worker(name, lambda: payments.call("order-1", idempotency_key="k"))
        lab.always("paid once", lambda: payments.count("order-1") <= 1)

    return scenario


def queue_and_database(lab):
    """The taught parts: a queue of scripts, a lock, a guarded status with an outbox, and its relay."""
    r, db = lab.redis(), lab.sql()
    queue = VisibilityQueue.create(r, "jobs", visibility_timeout=30)
    SqlStatusStore(db).create()
    Outbox(db).create()
    SqlStatusStore(db).begin("job-1", "pending")
    for _ in range(2):
        queue.send("job-1")

    def work(r, db):
        own = VisibilityQueue(r, "jobs")
        for message in own.receive():
            with AtomicLock(r, "lock:job", timeout=30), transaction(db):
                store = SqlStatusStore(db)
                if store.get("job-1") == "pending":
                    store.compare_and_set("job-1", "in-progress")
                if store.compare_and_set("job-1", "completed"):
                    Outbox(db).add("job-1:completed")
            own.delete(message.receipt_handle)

    def tell(db, events):
        relay = Relay(Outbox(db), lambda event: events.publish(event.id, idempotency_key=event.id))
        while True:
            relay.run_once()
            time.sleep(0.02)

    events = lab.service("bus", deduplicates=True)
    for name in "AB":
        lab.worker(name, work, lab.redis(), lab.sql())
    lab.worker("relay", tell, lab.sql(), events, forever=True)
    lab.at_end("completed", lambda: SqlStatusStore(db).get("job-1") == "completed")
    lab.at_end("told once", lambda: events.count("job-1:completed") == 1)
    lab.at_end("nothing is left", lambda: queue.attributes().visible == 0)


def every_kind(lab):
    """Requests that are more than one command and one reply."""

    def work(r):
        with r.pipeline() as pipe:
            pipe.watch("n")
            pipe.multi()
            pipe.incr("n").lrange("l", 0, -1)
            pipe.execute()
        with r.pipeline(transaction=False) as pipe:
            pipe.rpush("l", "a", "b").lmove("l", "m", "LEFT", "RIGHT").execute()
        r.mset({"x": 1, "y": 2})
        r.hset("h", mapping={"p": 1, "q": 2})
        r.hgetall("h")
        r.keys("h*")
        r.eval("-- two\\nredis.call('set', KEYS[1], ARGV[1]) return {KEYS[1], redis.call('get', KEYS[1])}", 1, "k", "v")
        r.xadd("s", {"a": 1}, id="1-0")
        r.xread({"s": "0"}, block=10)
        try:
            r.incr("h")
        except redis.ResponseError:
            r.ping()

    lab.worker("A", work, lab.redis())


def news(lab):
    """One subscribes, then the other publishes."""

    def listen(r):
        with r.pubsub() as pubsub:
            pubsub.subscribe("news")
            assert pubsub.get_message(timeout=30)["type"] == "subscribe"
            r.rpush("listening", "yes")
            lab.mail.send(pubsub.get_message(timeout=30)["data"].decode())

    def tell(r):
        r.blpop("listening", timeout=30)
        r.publish("news", "hello")

    lab.worker("A", listen, lab.redis())
    lab.worker("B", tell, lab.redis())
    lab.at_end("heard", lambda: lab.mail.count("hello") == 1)


def drains_or_not(drains):
    """A worker that is told to stop while it works; if it drains, it finishes what it has begun."""

    def work(r, mail):
        told = threading.Event()
        if drains:
            signal.signal(signal.SIGTERM, lambda *_: told.set())
        r.set("begun", 1)
        mail.send("begun")
        while not told.is_set():
            time.sleep(0.01)
        mail.send("finished")

    def scenario(lab):
        lab.worker("A", work, lab.redis(), lab.mail, signals=1)
        lab.at_end("finished", lambda: lab.mail.count("finished") == 1)

    return scenario


def beating(lab):
    """A worker with a heartbeat."""

    def work(r):
        beat = threading.Thread(target=lambda: r.incr("beats"), name="beat")
        beat.start()
        beat.join()
        r.get("beats")

    lab.worker("A", work, lab.redis())


def waits_for_ever(lab):
    """What it waits for never comes."""
    lab.worker("A", lambda r: r.blpop("never", timeout=0), lab.redis())
    lab.at_end("true", lambda: True)
