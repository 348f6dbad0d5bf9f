"""Each property that the queues promise, searched within bounds, and the broken variants that the search finds."""

import json
import time

import pytest

from labkit import explore
from labkit.queues import Message, PopQueue, ReliableQueue, StreamQueue, VisibilityQueue, visibility_scripts
from tests.queue_workers import MAILED, ONE_MAIL, consume, crashing, one_job, own, visibility, work

# ---- properties of the visibility queue, each with the variants that break it


def hold(queue, section):
    for message in queue.receive():
        with section("holding"):
            time.sleep(20)
        queue.delete(message.receipt_handle)


def one_holder(lab):
    one_job(lab)
    for name in "AB":
        lab.worker(name, hold, own(lab), lab.section)
    lab.worker("C", lambda queue, section: (time.sleep(15), hold(queue, section)), own(lab), lab.section)
    lab.always("one holder while the timeout lasts", lambda: lab.inside("holding") <= 1)


def gone_for_good(lab):
    one_job(lab)
    lab.worker("A", work, own(lab), lab.mail)
    lab.worker("B", lambda queue, mail: (time.sleep(60), work(queue, mail)), own(lab), lab.mail)
    lab.always("a deleted message never comes back", lambda: lab.mail.count("1") <= 1)


def kept_until_deleted(lab):
    crashing(visibility)(lab)
    lab.properties = [prop for prop in lab.properties if prop.name == MAILED]


def fail(queue, mail, times):
    for _ in range(times):
        for message in queue.receive():
            mail.send(message.body["order"])
        time.sleep(31)


def as_often_as_allowed(lab):
    queue = one_job(lab, max_receive_count=2)
    lab.worker("A", fail, own(lab), lab.mail, 4)
    lab.always("delivered at most twice", lambda: lab.mail.count("1") <= 2)
    lab.at_end("delivered twice", lambda: lab.mail.count("1") == 2)
    lab.at_end("then it is a dead letter", lambda: len(queue.dead_letters.deadlines()) == 1)


def nothing_is_lost(lab):
    queue = one_job(lab, max_receive_count=1)

    def is_accounted_for():
        now, dead = queue.attributes(), queue.dead_letters.attributes()
        return now.sent == now.deleted + now.visible + now.in_flight + now.delayed + dead.visible + dead.in_flight

    lab.worker("A", work, own(lab), lab.mail, 20)
    lab.worker("B", fail, own(lab), lab.mail, 2)
    lab.always("what was sent is deleted, or in the queue, or a dead letter", is_accounted_for)


def no_second_life_for_receipts(lab):
    queue = one_job(lab, max_receive_count=1)

    def late(queue):
        for message in queue.receive():
            time.sleep(100)
            queue.delete(message.receipt_handle)

    def operator(queue):
        time.sleep(40)
        queue.receive()  # finds a dead letter
        queue.redrive()
        time.sleep(20)
        queue.receive(visibility_timeout=100)

    lab.worker("A", late, own(lab))
    lab.worker("O", operator, own(lab), spared=True)
    lab.at_end("a receipt from before the redrive deletes nothing", lambda: len(queue.deadlines()) == 1)


def heard_at_once(lab, event):
    queue = VisibilityQueue.create(lab.redis(), "jobs")
    jobs = lab.redis()
    if event == "sent":
        lab.worker("P", lambda queue: (time.sleep(5), queue.send("new")), own(lab))
    else:
        (message,) = (queue.send("given back"), queue.receive())[1]
        handle = message.receipt_handle
        lab.worker("P", lambda queue: (time.sleep(5), queue.change_visibility(handle, 0)), own(lab))

    def wait(queue, r):
        if queue.receive(wait=20):
            r.set("received at", round(time.monotonic()))

    lab.worker("A", wait, own(lab), lab.redis())
    lab.at_end("received after 5 seconds", lambda: jobs.get("received at") == b"5")


def sent_is_heard_at_once(lab):
    heard_at_once(lab, "sent")


def given_back_is_heard_at_once(lab):
    heard_at_once(lab, "given back")


def polling_is_decided(lab):
    VisibilityQueue.create(lab.redis(), "jobs")
    lab.worker("A", consume, own(lab), lab.mail, 0, forever=True)
    lab.worker("P", lambda queue: (time.sleep(100), queue.send({"order": "1"})), own(lab))
    lab.at_end(MAILED, lambda: lab.mail.count("1") == 1)


PROPERTIES = {
    one_holder: {},
    gone_for_good: {},
    kept_until_deleted: {"crashes": 1},
    as_often_as_allowed: {},
    nothing_is_lost: {"crashes": 1},
    no_second_life_for_receipts: {},
    sent_is_heard_at_once: {},
    given_back_is_heard_at_once: {},
    polling_is_decided: {"max_states": 1_000},
}

_HIDE = "redis.call('ZADD', queue .. ':visible_at', now + timeout, id)"
_COUNT = "redis.call('HINCRBY', message(queue, id), 'receive_count', 1)"
_TO_DEAD = "redis.call('ZADD', dead .. ':visible_at', now, id)"
MUTANTS = {
    "a receive that forgets to hide": ("RECEIVE", _HIDE, "", one_holder),
    "a receive that gives what is hidden": ("RECEIVE", "'-inf', now,", "'-inf', '+inf',", one_holder),
    "a receive that hides for the time of a second": ("RECEIVE", "now + timeout", "now + 1000", one_holder),
    "a receive that deletes": ("RECEIVE", _HIDE, "redis.call('ZREM', queue .. ':visible_at', id)", kept_until_deleted),
    "a receive that never gives again": ("RECEIVE", "now + timeout", "now + 1e12", kept_until_deleted),
    "a receive that does not count": ("RECEIVE", _COUNT, "1", as_often_as_allowed),
    "one delivery too many": ("RECEIVE", ">= most", "> most", as_often_as_allowed),
    "one delivery too few": ("RECEIVE", ">= most", ">= most - 1", as_often_as_allowed),
    "a dead letter that is nowhere": ("RECEIVE", _TO_DEAD, "", nothing_is_lost),
    "a dead letter that is in both queues": (
        "RECEIVE",
        "  remove(id)\n  redis.call('HINCRBY', queue, 'dead",
        "  redis.call('HINCRBY', queue, 'dead",
        nothing_is_lost,
    ),
    "a delete that only says so": ("DELETE", "\nremove(id)", "", gone_for_good),
    "a redrive with the old ids": ("REDRIVE", "local id = new_id()", "local id = old", no_second_life_for_receipts),
    "a send that is not announced": ("SEND", "\nannounce()", "", sent_is_heard_at_once),
    "a message given back without a word": (
        "CHANGE_VISIBILITY",
        "then announce() end",
        "then end",
        given_back_is_heard_at_once,
    ),
    "a receive that writes when it finds nothing": (
        "RECEIVE",
        "local given = {}",
        "local given = {}\nredis.call('HINCRBY', queue, 'looks', 1)",
        polling_is_decided,
    ),
}


@pytest.mark.parametrize("scenario", PROPERTIES, ids=lambda scenario: scenario.__name__)
def test_the_property_holds(scenario):
    assert explore(scenario, **PROPERTIES[scenario]).outcome == "holds"


@pytest.mark.parametrize("name", MUTANTS)
def test_the_property_breaks_with(name, monkeypatch):
    script, old, new, scenario = MUTANTS[name]
    text = getattr(visibility_scripts, script)
    assert text.count(old) == 1
    monkeypatch.setattr(visibility_scripts, script, text.replace(old, new))
    wanted = "undetermined" if scenario is polling_is_decided else "violated"
    assert explore(scenario, **PROPERTIES[scenario]).outcome == wanted


# ---- the other queues' properties, and the variants that break them


class PopByLooking(PopQueue):
    """Looks at the last element, then removes it: two steps."""

    def receive(self, wait=0):
        entry = self.client.lindex(self.name, -1)
        if entry is None:
            return []
        self.client.rpop(self.name)
        return [Message(json.loads(entry), "")]


class PopThenRemember(ReliableQueue):
    """Pops, then writes down what it has: two steps."""

    def receive(self, wait=0):
        self.heartbeat()
        entry = self.client.rpop(self.name)
        if entry is None:
            return []
        self.client.lpush(f"{self.name}:processing:{self.worker}", entry)
        return [Message(json.loads(entry), f"{self.name}/{entry.decode()}")]


class ReapEverybody(ReliableQueue):
    """Asks nobody whether he lives."""

    def reap(self):
        for worker in sorted(self.client.smembers(f"{self.name}:workers")):
            while self.client.lmove(f"{self.name}:processing:{worker.decode()}", self.name, "LEFT", "RIGHT"):
                pass


class LookThenReap(ReliableQueue):
    """Asks whether a worker lives, then takes what it has: two steps."""

    def reap(self):
        for worker in sorted(self.client.smembers(f"{self.name}:workers")):
            if not self.client.exists(f"{self.name}:alive:{worker.decode()}"):
                while self.client.lmove(f"{self.name}:processing:{worker.decode()}", self.name, "LEFT", "RIGHT"):
                    pass


class ReapAndForget(ReliableQueue):
    """Takes a dead worker's name off the list, for tidiness."""

    def reap(self):
        super().reap()
        for worker in sorted(self.client.smembers(f"{self.name}:workers")):
            if not self.client.exists(f"{self.name}:alive:{worker.decode()}"):
                self.client.srem(f"{self.name}:workers", worker)


class ReadWithoutPending(StreamQueue):
    """Reads with NOACK."""

    def receive(self, max_messages=1, wait=0):
        found = self.client.xreadgroup(self.group, self.consumer, {self.name: ">"}, 1, noack=True)
        entries = found[0][1] if found else []
        return [self._message(entry, fields, 1) for entry, fields in entries]


class ClaimFromTheLiving(StreamQueue):
    """Claims whatever is pending, as soon as it is."""

    def claim(self, min_idle, max_messages=1):
        return super().claim(0.001, max_messages)


class DropThenBury(StreamQueue):
    """Deletes a spent entry, then writes it down as a dead letter: two steps."""

    def claim(self, min_idle, max_messages=1):
        _, entries, *_ = self.client.xautoclaim(self.name, self.group, self.consumer, round(min_idle * 1_000))
        for entry, fields in entries:
            times = self.client.xpending_range(self.name, self.group, entry, entry, 1)[0]["times_delivered"]
            if times <= self.max_deliveries:
                return [self.message(entry, fields, times)]
            self.client.xack(self.name, self.group, entry)
            self.client.hset(f"{self.name}-dead-letters", entry, fields[b"body"])
        return []


class BuryEarly(StreamQueue):
    """Allows one delivery fewer."""

    def claim(self, min_idle, max_messages=1):
        return StreamQueue(self.client, self.name, self.consumer, self.max_deliveries - 1).claim(min_idle, max_messages)


def taken_once(kind):
    def scenario(lab):
        kind(lab.redis(), "jobs").send({"order": "1"})
        for name in "AB":
            lab.worker(name, work, kind(lab.redis(), "jobs"), lab.mail)
        lab.always(ONE_MAIL, lambda: lab.mail.count("1") <= 1)

    return scenario


def survives_a_crash(kind):
    def make(lab, name):
        queue = kind(lab.redis(), "jobs", name)
        if isinstance(queue, StreamQueue):
            queue.create()
        return queue

    def scenario(lab):
        crashing(make)(lab)
        lab.properties = [prop for prop in lab.properties if prop.name == MAILED]

    return scenario


def the_living_are_left_alone(kind):
    """A has the job for 120 seconds, with heartbeats; R looks for dead workers after 40."""

    def slow(queue, mail):
        for message in queue.receive():
            for _ in range(4):
                time.sleep(30)
                if isinstance(queue, ReliableQueue):
                    queue.heartbeat()
            mail.send(message.body["order"])

    def rescue(queue, mail):
        time.sleep(40)
        if isinstance(queue, ReliableQueue):
            queue.reap()
        for message in queue.claim(min_idle=130) if isinstance(queue, StreamQueue) else queue.receive():
            mail.send(message.body["order"])

    def scenario(lab):
        queue = kind(lab.redis(), "jobs", "P")
        if isinstance(queue, StreamQueue):
            queue.create()
        queue.send({"order": "1"})
        lab.worker("A", slow, kind(lab.redis(), "jobs", "A"), lab.mail)
        lab.worker("R", rescue, kind(lab.redis(), "jobs", "R"), lab.mail)
        lab.always(ONE_MAIL, lambda: lab.mail.count("1") <= 1)

    return scenario


def nobody_who_just_came_is_robbed(kind):
    """A was away for long and comes back for a job just when R looks for dead workers."""

    def away(queue, mail):
        queue.heartbeat()
        time.sleep(100)
        work(queue, mail)

    def rescue(queue, mail):
        time.sleep(100)
        queue.reap()
        work(queue, mail)

    def scenario(lab):
        kind(lab.redis(), "jobs", "P").send({"order": "1"})
        lab.worker("A", away, kind(lab.redis(), "jobs", "A"), lab.mail)
        lab.worker("R", rescue, kind(lab.redis(), "jobs", "R"), lab.mail)
        lab.always(ONE_MAIL, lambda: lab.mail.count("1") <= 1)

    return scenario


def who_was_dead_for_a_while_is_found_again(kind):
    """A is paused between its heartbeat and its move, R looks for dead workers, A goes on and dies."""

    def rescue(queue, mail):
        for _ in range(2):
            time.sleep(100)
            queue.reap()
            for message in queue.receive():
                mail.send(message.body["order"])

    def scenario(lab):
        kind(lab.redis(), "jobs", "P").send({"order": "1"})
        lab.worker("A", work, kind(lab.redis(), "jobs", "A"), lab.mail)
        lab.worker("R", rescue, kind(lab.redis(), "jobs", "R"), lab.mail, spared=True)
        lab.at_end(MAILED, lambda: lab.mail.count("1") >= 1)

    return scenario


def spent_entries_are_dead_letters(kind):
    def failing(queue, mail):
        queue.receive()

    def claiming(queue, mail, after):
        time.sleep(after)
        for message in queue.claim(min_idle=50):
            mail.send(f"delivery {message.receive_count}")

    def scenario(lab):
        queue = kind(lab.redis(), "jobs", "P", max_deliveries=2)
        queue.create()
        queue.send({"order": "1"})
        lab.worker("A", failing, kind(lab.redis(), "jobs", "A", max_deliveries=2), lab.mail, spared=True)
        for name, after in [("B", 60), ("C", 120), ("D", 180)]:
            handle = kind(lab.redis(), "jobs", name, max_deliveries=2)
            lab.worker(name, claiming, handle, lab.mail, after, spared=name != "C")
        lab.at_end("what was delivered twice is a dead letter", lambda: len(queue.dead_letters()) == 1)
        lab.at_end("it was delivered twice", lambda: [call.key for call in lab.mail.calls] == ["delivery 2"])

    return scenario


CASES = [
    (taken_once, PopQueue, {}, [PopByLooking]),
    (survives_a_crash, ReliableQueue, {"crashes": 1, "lost_replies": 1}, [PopThenRemember]),
    (survives_a_crash, StreamQueue, {"crashes": 1, "lost_replies": 1}, [ReadWithoutPending]),
    (the_living_are_left_alone, ReliableQueue, {}, [ReapEverybody]),
    (the_living_are_left_alone, StreamQueue, {}, [ClaimFromTheLiving]),
    (nobody_who_just_came_is_robbed, ReliableQueue, {}, [ReapEverybody, LookThenReap]),
    (who_was_dead_for_a_while_is_found_again, ReliableQueue, {"crashes": 1, "pauses": 2}, [ReapAndForget]),
    (spent_entries_are_dead_letters, StreamQueue, {"crashes": 1}, [DropThenBury, BuryEarly]),
]


@pytest.mark.parametrize(("promise", "kind", "bounds", "mutants"), CASES)
def test_the_promise_is_kept_by_the_queue_and_broken_by_its_mutants(promise, kind, bounds, mutants):
    assert explore(promise(kind), **bounds).outcome == "holds"
    for mutant in mutants:
        assert explore(promise(mutant), **bounds).outcome == "violated", mutant.__name__
