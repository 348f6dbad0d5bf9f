"""Two workers each: what the pictures of all schedules are tested on."""

import time

from tests.programs import guarded_by_a_lock, naive, naive_lock


def add_one(r):
    r.set("n", int(r.get("n") or 0) + 1)


def lost_update(lab):
    """A counter that is read and written; who reads too early has lost long before the end says so."""
    jobs = lab.redis()
    for name in "AB":
        lab.worker(name, add_one, lab.redis())
    lab.at_end("both counted", lambda: jobs.get("n") == b"2")


def hold_for_long(r, section, mail, delay):
    if delay:
        time.sleep(delay)
    if r.set("lock", "taken", nx=True, ex=30):
        with section("inside"):
            time.sleep(45)
            mail.send("order-1")
        r.delete("lock")


def short_lease(lab):
    """A lock that lives 30 s, a job that takes 45 s, and a second worker that comes after 35 s."""
    for name, delay in (("A", 0), ("B", 35)):
        lab.worker(name, hold_for_long, lab.redis(), lab.section, lab.mail, delay)
    lab.always("at most one worker is inside", lambda: lab.inside("inside") <= 1)
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)


def hold_and_mail(r, section, mail):
    if r.set("lock", "taken", nx=True, ex=30):
        with section("inside"):
            mail.send("order-1")
        r.delete("lock")


def expiring_lock(lab):
    """A lock that expires when its holder is paused."""
    for name in "AB":
        lab.worker(name, hold_and_mail, lab.redis(), lab.section, lab.mail)
    lab.always("at most one worker is inside", lambda: lab.inside("inside") <= 1)


def atomic_lock(lab):
    """A lock that is taken atomically, with a guard: nothing breaks it."""
    for name in "AB":
        lab.worker(name, guarded_by_a_lock, lab.redis(), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count() <= 1)


check_then_set = naive_lock("AB")

# Each with how often time may pass while a worker could step.
SCENARIOS = {
    "check_then_set": (check_then_set, 0),
    "status_race": (naive, 0),
    "expiring_lock": (expiring_lock, 1),
    "short_lease": (short_lease, 0),
    "lost_update": (lost_update, 0),
    "atomic_lock": (atomic_lock, 0),
}
