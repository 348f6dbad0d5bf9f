"""Worker programs that several tests use: the status race, its fixes, and small ones."""

import time
import uuid

import redis

STATUS, LOCK = "job_status:1", "job_lock:1"

COMPLETE = """-- complete once, with its event
if redis.call('get', KEYS[1]) == 'completed' then return 0 end
redis.call('set', KEYS[1], 'completed')
redis.call('rpush', KEYS[2], ARGV[1])
return 1
"""
RELEASE = """-- release if mine
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
"""


def naive_completion(r, events):
    if r.get(STATUS) != b"completed":
        r.set(STATUS, "completed")
        events.publish("job-1")


def article_completion(r, events, section):
    if not r.set(LOCK, "locked", ex=30, nx=True):
        return False
    try:
        with section("holding the lock"):
            if r.get(STATUS) == b"completed":
                return True
            r.set(STATUS, "completed")
            events.publish("job-1")
            return True
    finally:
        r.delete(LOCK)


def sound_completion(r):
    token = uuid.uuid4().hex
    if not r.set(LOCK, token, ex=30, nx=True):
        return False
    try:
        r.eval(COMPLETE, 2, STATUS, "outbox", "job-1")
        return True
    finally:
        r.eval(RELEASE, 1, LOCK, token)


def relay(r, events):
    while (event := r.lindex("outbox", 0)) is not None:
        events.publish(event.decode())
        r.lrem("outbox", 1, event)


def retry_later(r, events):
    time.sleep(60)
    while not sound_completion(r):
        time.sleep(35)  # longer than the lock of a dead worker lives
    relay(r, events)


def retry_once(r, events):
    time.sleep(60)
    sound_completion(r)
    relay(r, events)


def status_race(complete, workers="AB", *, with_section=False, retry=None):
    """The status race: workers that complete the same job, and what must hold of it."""

    def scenario(lab):
        jobs = lab.redis()
        jobs.set(STATUS, "in-progress")
        for name in workers:
            extra = {naive_completion: (lab.events,), article_completion: (lab.events, lab.section)}.get(complete, ())
            lab.worker(name, complete, lab.redis(), *extra)
        if retry:
            lab.worker("R", retry, lab.redis(), lab.events, spared=True)
        lab.always("the event is published at most once", lambda: lab.events.count("job-1") <= 1)
        if with_section:
            lab.always("at most one worker holds the lock", lambda: lab.inside("holding the lock") <= 1)
        lab.at_end(
            "a completed job's event was published",
            lambda: jobs.get(STATUS) != b"completed" or lab.events.count("job-1") >= 1,
        )
        if retry:
            lab.at_end("the job is completed", lambda: jobs.get(STATUS) == b"completed")

    return scenario


naive = status_race(naive_completion)
article_fix = status_race(article_completion, with_section=True)
sound_fix = status_race(sound_completion, retry=retry_later)


def check_then_set(r, section):
    """The naive lock: look, then take."""
    if r.get("lock") is None:
        r.set("lock", "taken")
        with section("inside"):
            r.get("data")
        r.delete("lock")


def naive_lock(workers):
    def scenario(lab):
        for name in workers:
            lab.worker(name, check_then_set, lab.redis(), lab.section)
        lab.always("at most one worker is inside", lambda: lab.inside("inside") <= 1)
        lab.always("true", lambda: True)  # never violated, so that every schedule is searched

    return scenario


def blocking_lock(lab):
    """redis-py's own lock, waited for by three workers."""

    def work(r):
        with redis.lock.Lock(r, "lock", timeout=10), lab.section("inside"):
            r.get("data")

    for name in "ABC":
        lab.worker(name, work, lab.redis())
    lab.always("one inside", lambda: lab.inside("inside") <= 1)
    lab.always("true", lambda: True)  # never violated, so that every schedule is searched


def guarded_by_a_lock(r, mail):
    """An atomic lock and a guard, and one mail."""
    if r.set("lock", "taken", nx=True):
        if r.get("status") is None:
            r.set("status", "done")
            mail.send("order-1")
        r.delete("lock")


def atomic_with_guard(lab):
    for name in "ABCDEF":
        lab.worker(name, guarded_by_a_lock, lab.redis(), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count() <= 1)
