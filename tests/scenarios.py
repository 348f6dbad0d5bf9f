"""Scenarios that other processes can load by name: each needs another part of the state."""

import os
import random
import signal
import threading
import time
import uuid

import redis

from tests.programs import article_fix, blocking_lock, naive, naive_lock, sound_fix
from tests.random_programs import put_into, random_case

three_locks = naive_lock("ABC")


def increment(r):
    with r.pipeline() as pipe:
        while True:
            try:
                pipe.watch("n")
                value = int(pipe.get("n") or 0)
                pipe.multi()
                pipe.set("n", value + 1)
                return pipe.execute()
            except redis.WatchError:
                continue


def watched_counter(lab):
    jobs = lab.redis()
    jobs.set("n", 0, ex=40)
    for name in "AB":
        lab.worker(name, increment, lab.redis())
    lab.at_end("both counted", lambda: jobs.get("n") in (b"2", None))
    lab.at_end("true", lambda: True)


def graceful(r, mail):
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    while not stop:
        time.sleep(5)
        if job := r.lpop("queue"):
            r.rpush("done", job)
    mail.send("stopped")


def told_to_stop(lab):
    jobs = lab.redis()
    jobs.rpush("queue", "1", "2")
    for name in "AB":
        lab.worker(name, graceful, lab.redis(), lab.mail, signals=1, forever=True)
    lab.at_end("everything is done", lambda: jobs.llen("done") == 2)
    lab.at_end("stopped when told", lambda: lab.mail.count("stopped") == 2)


def tell_and_sleep_on(r, mail):
    signal.signal(signal.SIGTERM, lambda *_: mail.send("told"))
    for second in range(3):
        time.sleep(10)
        r.set("y", second, nx=True, ex=15)


def told_while_asleep(lab):
    jobs = lab.redis()
    jobs.set("x", "there", ex=25)
    for name in "AB":
        lab.worker(name, tell_and_sleep_on, lab.redis(), lab.mail, signals=1)
    lab.at_end("x is gone", lambda: not jobs.exists("x"))
    lab.always("y is not set late", lambda: jobs.get("y") != b"2" or jobs.exists("x"))


def pay(r, payments):
    for attempt in range(3):
        try:
            payments.call("order-1", idempotency_key="order-1/pay", attempt=attempt)
            return r.incr("paid")
        except (TimeoutError, redis.TimeoutError):
            time.sleep(attempt + 1)
    raise RuntimeError("gave up")


def payments_retried(lab):
    jobs = lab.redis()
    payments = lab.service("payments", deduplicates=True)
    lab.worker("A", pay, lab.redis(retries=1), payments)
    lab.worker("B", pay, lab.redis(), payments)
    lab.always("paid once", lambda: payments.count() <= 1)
    lab.at_end("counted twice", lambda: jobs.get("paid") in (b"2", b"3"))


def complete(r):
    if r.get("status") == b"pending":
        r.set("status", "done")


def restart(r):
    if r.get("status") != b"done":
        r.set("status", "pending")


def terminal_status(lab):
    jobs = lab.redis()
    jobs.set("status", "pending")
    lab.worker("A", complete, lab.redis())
    lab.worker("B", restart, lab.redis())
    lab.worker("C", restart, lab.redis())
    lab.always(
        "what is done stays done",
        lambda before, now: before != b"done" or now == b"done",
        remember=lambda: jobs.get("status"),
    )
    lab.always("true", lambda: True)


def look_for(r, rounds):
    for _ in range(rounds):
        if r.get("flag"):
            return
        time.sleep(1)
    r.set("gave up", 1)


def impatient_pollers(lab):
    jobs = lab.redis()
    lab.worker("A", look_for, lab.redis(), 9)
    lab.worker("B", look_for, lab.redis(), 2)
    lab.worker("C", lambda r: time.sleep(3) or r.set("flag", 1), lab.redis())
    lab.always("nobody gives up", lambda: not jobs.exists("gave up"))
    lab.at_end("true", lambda: True)


def hopeless_poller(lab):
    jobs = lab.redis()
    lab.worker("A", look_for, lab.redis(), 9)
    for name in "BC":  # so that even the last layer has several states
        lab.worker(name, lambda r, name: r.set("last", name), lab.redis(), name)
    lab.always("nobody gives up", lambda: not jobs.exists("gave up"))


def take_and_pass_on(r, section, name):
    with section(name):
        r.rpush("done", r.blpop(["queue"])[1])


def somebody_waits(lab):
    jobs = lab.redis()
    lab.worker("A", take_and_pass_on, lab.redis(), lab.section, "left")
    lab.worker("B", take_and_pass_on, lab.redis(), lab.section, "right")
    lab.worker("P", lambda r: r.rpush("queue", "job"), lab.redis())
    lab.worker("Q", lambda r: r.blmove("never", "mine", 0) or r.get("x"), lab.redis())
    lab.always("nobody is in the middle", lambda: not jobs.exists("done") or lab.inside("middle") == 0)
    lab.always("two in all", lambda: lab.inside("left") + lab.inside("right") <= 2)
    lab.at_end("done once", lambda: jobs.llen("done") == 1)


def fussy(r, name):
    r.rpush("log", name)
    if len(seen := r.lrange("log", 0, -1)) == 2:
        raise ValueError(f"{name} saw {seen}")
    r.set(name, len(seen))


def different_errors(lab):
    for name in "ABC":
        lab.worker(name, fussy, lab.redis(), name)
    lab.always("true", lambda: True)


def sell(db):
    (before,) = db.execute("SELECT number FROM stock").fetchone()
    if before:
        db.execute("UPDATE stock SET number = ?", (before - 1,))
        db.execute("INSERT INTO sold (was) VALUES (?)", (before,))
        db.commit()


def last_mugs(lab):
    db = lab.sql()
    db.execute("CREATE TABLE stock (number INTEGER)")
    db.execute("INSERT INTO stock VALUES (2)")
    db.execute("CREATE TABLE sold (id INTEGER PRIMARY KEY, was INTEGER)")
    for name in "ABC":
        lab.worker(name, sell, lab.sql())
    lab.always(
        "no mug is sold twice", lambda: db.execute("SELECT count(*) - count(DISTINCT was) FROM sold").fetchone() == (0,)
    )
    lab.at_end("all are sold", lambda: db.execute("SELECT number FROM stock").fetchone() == (0,))


def consume(r, mail, name):
    for _, entries in r.xreadgroup("g", name, {"s": ">"}, count=1) or ():
        for key, fields in entries:
            mail.send(fields[b"job"].decode())
            r.xack("s", "g", key)


def reclaim(r, mail):
    time.sleep(30)
    _, entries, *_ = r.xautoclaim("s", "g", "R", min_idle_time=20_000)
    for _, fields in entries:
        mail.send(fields[b"job"].decode())


def stream_group(lab):
    r = lab.redis(protocol=2)
    r.xgroup_create("s", "g", id="0", mkstream=True)
    r.xadd("s", {"job": "7"}, id="1-1")
    r.xadd("s", {"job": "8"}, id="1-2")
    for name in "AB":
        lab.worker(name, consume, lab.redis(protocol=2), lab.mail, name)
    lab.worker("R", reclaim, lab.redis(protocol=2), lab.mail, spared=True)
    lab.always("once each", lambda: lab.mail.count("7") <= 1 and lab.mail.count("8") <= 1)
    lab.at_end("both", lambda: lab.mail.count() >= 2)


def stamp(r, name):
    r.set(f"{name}:token", uuid.uuid4().hex)
    if r.set("lock", name, nx=True, px=2_000):
        time.sleep(1)
        r.set(f"{name}:until", int(time.time()) + 1)


def stamped(lab):
    jobs = lab.redis()
    for name in "ABC":
        lab.worker(name, stamp, lab.redis(), name)
    lab.at_end("A never stamps", lambda: not jobs.exists("A:until"))
    lab.always("true", lambda: True)


def spin(r):
    while r.incr("n"):
        pass


def spinning(lab):
    for name in "AB":
        lab.worker(name, spin, lab.redis())
    lab.at_end("true", lambda: True)


def keep_alive(r, done):
    while not done.wait(10):
        if not r.expire("lock", 30):
            raise LookupError(f"lost when {r.get('runs')} had run")


def slow_job(r, name):
    done = threading.Event()
    if r.set("lock", name, nx=True, ex=30):
        threading.Thread(target=keep_alive, args=(r, done), name="beat").start()
        time.sleep(25)
        r.incr("runs")
        if r.get("lock") == name.encode():
            r.delete("lock")
        done.set()


def heartbeats(lab):
    jobs = lab.redis()
    lab.worker("A", slow_job, lab.redis(), "A")
    lab.worker("B", lambda r: time.sleep(5) or slow_job(r, "B"), lab.redis())
    lab.at_end("the job runs once", lambda: jobs.get("runs") == b"1")
    lab.always("true", lambda: True)


def wait_for_the_lease(r, name):
    until = time.time() + 10
    if r.set("lease", until, nx=True):
        time.sleep(1)
        r.rpush("log", name)
    while float(r.get("lease") or 0) > time.time():
        time.sleep(4)
    r.rpush("log", f"{name} is done")


def leases(lab):
    jobs = lab.redis()
    lab.replica(behind=2)
    lab.worker("A", wait_for_the_lease, lab.redis(), "A", jump=-20, skew=1)
    lab.worker("B", wait_for_the_lease, lab.redis(), "B")
    lab.deadlines(lambda: [float(jobs.get("lease") or 0)])
    lab.always("one has it", lambda: not {b"A", b"B"}.issubset(jobs.lrange("log", 0, -1)))
    lab.at_end("both are done", lambda: jobs.llen("log") >= 3)


def listen(r, name):
    with r.pubsub(ignore_subscribe_messages=True) as news:
        news.subscribe("news")
        news.get_message()  # the confirmation
        if message := news.get_message(timeout=None if name == "A" else 5):
            r.rpush(name, message["data"])


def publish(r):
    r.publish("news", "first")
    r.rpush("told", r.publish("news", "second"))


def subscribers(lab):
    jobs = lab.redis()
    for name in "AB":
        lab.worker(name, listen, lab.redis(), name)
    lab.worker("P", publish, lab.redis())
    lab.always("nobody hears the second first", lambda: b"second" not in jobs.lrange("A", 0, 0))
    lab.at_end("somebody hears", lambda: jobs.exists("A") or jobs.exists("B"))


def count_to(r, most):
    while r.incr("n") < most:
        pass


def counting(lab, most=3):
    jobs = lab.redis()
    for name in "ABC":
        lab.worker(name, count_to, lab.redis(), most)
    return lambda: int(jobs.get("n") or 0)


def check_that_raises(lab):
    count = counting(lab)
    lab.always("not 4", lambda: 12 // (4 - count()) > 0)
    lab.always("true", lambda: True)


def checks_that_raise_in_the_same_layer(lab):
    counting(lab)
    jobs = lab.redis()
    for name in "DE":
        lab.worker(name, lambda r, name: r.incr("n") and r.rpush("log", name), lab.redis(), name)
    lab.always("nobody is first", lambda: [].index(jobs.lrange("log", 0, 0)[0]) if jobs.exists("log") else True)


def check_that_remembers(lab):
    count, seen = counting(lab), []
    lab.always("small", lambda: count() < 4 or seen.append(count()) or True)


def unsupported_at_last(lab):
    counting(lab)
    lab.worker("P", lambda r: r.incr("n") == 4 and r.config_get("*"), lab.redis())


def look_around(r):
    if r.incr("n") == 2:
        r.set("me", os.getpid())


def depends_on_its_process(lab):
    for name in "ABC":
        lab.worker(name, look_around, lab.redis())
    lab.always("true", lambda: True)


def built_by_its_process(lab):
    lab.redis().set("me", os.getpid())
    counting(lab)
    lab.always("true", lambda: True)


def compute_for_ever(r):
    if r.incr("n") == 2:
        while True:
            pass


def stuck_at_last(lab):
    for name in "AB":
        lab.worker(name, compute_for_ever, lab.redis())


def random_scenario(seed, lab):
    programs, _ = random_case(random.Random(seed))
    put_into(lab, programs)
    observer, calls = lab.redis(), lab.service("effects")
    lab.always("no effect happens twice", lambda: all(calls.count(call.key) == 1 for call in calls.calls))
    lab.at_end("x exists at the end", lambda: observer.exists("x"))
    lab.always("true", lambda: True)


CASES = {
    "naive": (naive, {}),
    "three_locks": (three_locks, {"crashes": 1}),
    "article_fix": (article_fix, {"crashes": 1, "pauses": 1}),
    "sound_fix": (sound_fix, {"crashes": 1, "pauses": 1}),
    "blocking_lock": (blocking_lock, {"pauses": 1}),
    "watched_counter": (watched_counter, {"crashes": 1, "pauses": 1}),
    "told_to_stop": (told_to_stop, {"crashes": 1}),
    "told_while_asleep": (told_while_asleep, {"pauses": 1}),
    "payments_retried": (payments_retried, {"lost_replies": 2, "crashes": 1}),
    "terminal_status": (terminal_status, {}),
    "impatient_pollers": (impatient_pollers, {"pauses": 1}),
    "hopeless_poller": (hopeless_poller, {}),
    "somebody_waits": (somebody_waits, {"crashes": 1}),
    "different_errors": (different_errors, {"crashes": 1}),
    "last_mugs": (last_mugs, {"crashes": 1, "lost_replies": 1}),
    "stream_group": (stream_group, {"crashes": 1, "pauses": 1}),
    "stamped": (stamped, {"pauses": 1, "seed": 3}),
    "heartbeats": (heartbeats, {"pauses": 1}),
    "leases": (leases, {"failovers": 1, "jumps": 1}),
    "subscribers": (subscribers, {}),
    "spinning": (spinning, {"max_states": 200}),
}
