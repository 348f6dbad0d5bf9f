"""The taught locks: what each guarantees, what it does not, and the schedules that their docstrings name."""

import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import fakeredis
import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError

from labkit import explore, locks, replay
from labkit.locks import (
    AtomicLock,
    CheckThenSetLock,
    FencedLock,
    FencedRegister,
    GetThenDeleteLock,
    SetnxThenExpireLock,
    UnownedLock,
)
from tests.docstrings import shown

LEASE = 30
ONE = "at most one worker is inside"
DONE = "the job is done in the end"
NUMBERS = "no fencing token is given out twice"
ALL = (CheckThenSetLock, SetnxThenExpireLock, UnownedLock, GetThenDeleteLock, AtomicLock, FencedLock)


# ---- scenarios


def critical(lock, r, section):
    if lock.acquire(blocking=False):
        with section("critical"):
            r.incr("data")
        lock.release()


def contend(kind, r, section):
    critical(kind(r, "lock", timeout=LEASE), r, section)


def contend_later(kind, r, section):
    time.sleep(LEASE)
    contend(kind, r, section)


def take_and_release(kind, r):
    lock = kind(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        lock.release()


def do_job(kind, r, timeout, arrives):
    if arrives:
        time.sleep(arrives)
    lock = kind(r, "lock", timeout=timeout)
    if lock.acquire(blocking=False):
        r.set("job", "done")
        lock.release()


def write_fenced(kind, register, r, alarm):
    lock = kind(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        try:
            register(r, "register").write(lock.fencing_token, lock.fencing_token)
        except LockNotOwnedError:
            if lock.owned():
                alarm.call("a holder was refused")
            raise


def contention(kind, workers="AB"):
    """Workers that want to be inside at the same time."""

    def scenario(lab):
        for name in workers:
            lab.worker(name, contend, kind, lab.redis(), lab.section)
        lab.always(ONE, lambda: lab.inside("critical") <= 1)

    return scenario


def late_release(kind):
    """A is done, and may be paused before it releases; B and C come when A's lease ends, and are never paused."""

    def scenario(lab):
        lab.worker("A", take_and_release, kind, lab.redis())
        for name in "BC":
            lab.worker(name, contend_later, kind, lab.redis(), lab.section, spared=True)
        lab.always(ONE, lambda: lab.inside("critical") <= 1)

    return scenario


def death(kind, timeout=LEASE):
    """A may die with the lock; B tries after any lease has ended."""

    def scenario(lab):
        jobs = lab.redis()
        lab.worker("A", do_job, kind, lab.redis(), timeout, 0)
        lab.worker("B", do_job, kind, lab.redis(), timeout, 2 * LEASE, spared=True)
        lab.at_end(DONE, lambda: jobs.get("job") == b"done")

    return scenario


def fenced(kind=FencedLock, register=FencedRegister):
    """Workers that write to a register with their fencing tokens."""

    def scenario(lab):
        seen, alarm = lab.redis(), lab.service("alarm")
        for name in "AB":
            lab.worker(name, write_fenced, kind, register, lab.redis(), alarm)
        lab.always(
            "no write is undone by an older one", in_order, remember=lambda: int(seen.hget("register", "value") or 0)
        )
        lab.always("whoever holds the lock may write", lambda: alarm.count() == 0)

    return scenario


def tell_number(kind, r, tokens):
    lock = kind(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        tokens.call(str(lock.fencing_token))


def numbered(kind):
    """Workers that say with which fencing token they hold the lock."""

    def scenario(lab):
        tokens = lab.service("tokens")
        for name in "AB":
            lab.worker(name, tell_number, kind, lab.redis(), tokens)
        lab.always(NUMBERS, lambda: len({call.key for call in tokens.calls}) == tokens.count())

    return scenario


def in_order(before, now):
    return before <= now


class UncheckedRegister(FencedRegister):
    """A mutant: a resource that does not look at the token."""

    def write(self, token, value):
        self.redis.hset(self.name, mapping={"token": token, "value": value})


class NumberedLaterLock(AtomicLock):
    """A mutant: its number is drawn after the lock was taken, in a request of its own."""

    def acquire(self, *args, **options):
        taken = super().acquire(*args, **options)
        if taken:
            self.fencing_token = self.redis.incr("lock:token")
        return taken


# By class: for each schedule in its docstring, the budgets that it needs, and what it breaks.
SHOWN = {
    CheckThenSetLock: [({}, ONE)],
    SetnxThenExpireLock: [({"crashes": 1}, DONE)],
    UnownedLock: [({"pauses": 1}, ONE)],
    GetThenDeleteLock: [({"pauses": 1}, ONE)],
    AtomicLock: [({"pauses": 1}, ONE)],
    FencedLock: [({"pauses": 1}, ONE), ({"failovers": 1}, NUMBERS)],
}
WITHIN = [(contention, {}), (late_release, {"pauses": 1}), (death, {"crashes": 1})]


# ---- what the explorer says


@pytest.mark.parametrize("kind", SHOWN)
def test_the_schedule_in_the_docstring_is_the_shortest_that_breaks_the_lock(kind):
    for told, (budgets, broken) in zip(shown(kind), SHOWN[kind], strict=True):
        trace = replay(told.scenario, told.schedule)
        assert [violation.property for violation in trace.violations] == [broken]
        found = explore(told.scenario, **budgets).counterexample
        assert str(found.schedule) == told.schedule
        assert found.length <= 7


@pytest.mark.parametrize(("scenario", "budgets"), WITHIN)
@pytest.mark.parametrize("kind", [AtomicLock, FencedLock])
def test_the_sound_locks_hold_where_a_naive_one_breaks_as_long_as_the_section_is_shorter_than_the_lease(
    kind, scenario, budgets
):
    explore(scenario(kind), **budgets).assert_holds()


@pytest.mark.parametrize("kind", [AtomicLock, FencedLock])
def test_the_sound_locks_let_one_of_three_workers_in_whoever_dies(kind):
    explore(contention(kind, "ABC"), crashes=2).assert_holds()


def test_each_naive_lock_breaks_in_a_way_of_its_own():
    broken = {
        kind.__name__: [
            scenario.__name__ for scenario, budgets in WITHIN if explore(scenario(kind), **budgets).violations
        ]
        for kind in ALL
    }
    assert broken == {
        "CheckThenSetLock": ["contention", "late_release"],
        "SetnxThenExpireLock": ["death"],
        "UnownedLock": ["late_release"],
        "GetThenDeleteLock": ["late_release"],
        "AtomicLock": [],
        "FencedLock": [],
    }


def test_a_dead_worker_keeps_a_lock_without_a_timeout_for_ever():
    assert explore(death(AtomicLock), crashes=1).outcome == "holds"
    assert str(explore(death(AtomicLock, timeout=None), crashes=1).counterexample.schedule) == "A crash:A clock B B"


def test_a_lost_reply_keeps_the_lock_until_its_lease_ends_and_without_a_timeout_for_ever():
    assert explore(death(AtomicLock), lost_replies=1).outcome == "holds"
    assert explore(death(AtomicLock, timeout=None), lost_replies=1).outcome == "violated"


def test_a_release_that_is_repeated_after_a_lost_reply_takes_nobody_elses_lock():
    assert explore(stubborn_release(AtomicLock), lost_replies=1).outcome == "holds"
    assert explore(stubborn_release(UnownedLock), lost_replies=1).outcome == "violated"


def test_a_client_that_resends_after_a_lost_reply_finds_the_lock_taken_by_itself():
    def scenario(lab):
        seen = lab.redis()
        lab.worker("A", do_job, AtomicLock, lab.redis(retries=1), LEASE, 0)
        lab.at_end("the lock is free, or the job is done", lambda: not seen.exists("lock") or seen.exists("job"))

    explore(scenario).assert_holds()
    assert str(explore(scenario, lost_replies=1).counterexample.schedule) == "lose:A clock A A"


def release_again(kind, r):
    lock = kind(r, "lock", timeout=LEASE)
    if lock.acquire(blocking=False):
        try:
            lock.release()
        except redis.TimeoutError:
            lock.release()


def stubborn_release(kind):
    def scenario(lab):
        lab.worker("A", release_again, kind, lab.redis())
        for name in "BC":
            lab.worker(name, contend, kind, lab.redis(), lab.section, spared=True)
        lab.always(ONE, lambda: lab.inside("critical") <= 1)

    return scenario


def wait_inside(kind, r, section):
    with kind(r, "lock", timeout=10), section("critical"):
        r.incr("data")


@pytest.mark.parametrize("kind", [AtomicLock, FencedLock])
def test_workers_that_wait_for_the_lock_come_in_one_by_one_whoever_dies(kind):
    def scenario(lab):
        for name in "ABC":
            lab.worker(name, wait_inside, kind, lab.redis(), lab.section, forever=True)
        lab.always(ONE, lambda: lab.inside("critical") <= 1)

    explore(scenario, crashes=1).assert_holds()


# ---- fencing


def test_fencing_tokens_are_given_out_once_unless_a_failover_forgets_the_last():
    explore(numbered(FencedLock), crashes=1, pauses=1, lost_replies=1).assert_holds()
    assert explore(numbered(FencedLock), failovers=1).outcome == "violated"


def test_after_a_failover_a_register_takes_the_writes_of_two_holders_with_one_token():
    trace = replay(fenced(), "A failover B B A")
    assert [event.reply for event in trace.events if "write unless" in event.text] == ["1", "1"]


def test_a_paused_holders_write_is_refused_by_a_resource_that_checks_the_token():
    (told,) = shown(FencedRegister)
    trace = replay(told.scenario, told.schedule + " A")  # A then asks whether it still holds the lock
    assert trace.events[-1].ending.error.startswith("LockNotOwnedError: Write to 'register' refused: fencing token 1")
    explore(fenced(), pauses=1, crashes=1).assert_holds()
    explore(fenced(), pauses=None).assert_holds()


def test_without_the_check_at_the_resource_the_same_schedule_undoes_the_newer_write():
    found = explore(fenced(register=UncheckedRegister), pauses=1).violations
    assert set(found) == {"no write is undone by an older one"}
    (trace,) = found.values()
    assert str(trace.schedule) == shown(FencedRegister)[0].schedule


def test_a_number_that_is_drawn_after_the_lock_was_taken_refuses_the_live_holder():
    found = explore(fenced(kind=NumberedLaterLock), pauses=1).violations
    assert "whoever holds the lock may write" in found


def test_fencing_tokens_grow_with_each_grant_and_belong_to_the_holder(client):
    first, second = FencedLock(client, "lock"), FencedLock(client, "lock", timeout=LEASE)
    with first:
        assert first.fencing_token == 1
        assert not second.acquire(blocking=False)
        with pytest.raises(LockError, match="no fencing token"):
            _ = second.fencing_token
    with pytest.raises(LockError, match="no fencing token"):
        _ = first.fencing_token
    with second:
        assert second.fencing_token == 2
        assert 0 < client.pttl("lock") <= LEASE * 1000


def test_a_damaged_counter_of_fencing_tokens_leaves_the_lock_free():
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    client.set("lock:token", "damaged")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        FencedLock(client, "lock", timeout=LEASE).acquire(blocking=False)
    assert not client.exists("lock")


def test_a_register_keeps_what_was_written_with_the_highest_token(client):
    register = FencedRegister(client, "register")
    assert register.read() is None
    register.write(9, "old")
    register.write(10, "new")
    register.write(10, "newer")  # the same holder again
    with pytest.raises(LockNotOwnedError, match="'register' refused: fencing token 9 was overtaken"):
        register.write(9, "late")
    assert register.read() == b"newer"


@pytest.mark.parametrize("token", [0, -1, True, "1", None])
def test_what_is_no_fencing_token_is_refused(client, token):
    with pytest.raises(LockError, match="A fencing token is a number from 1 on"):
        FencedRegister(client, "register").write(token, "value")


# ---- one process


@pytest.fixture
def server():
    return fakeredis.FakeServer()


@pytest.fixture
def client(server):
    return fakeredis.FakeRedis(server=server)


class ForgetfulLock(AtomicLock):
    """A mutant: it forgets its token before the round trip, as redis-py 8.1.0 does."""

    def do_release(self, token):
        self.local.token = None
        return super().do_release(token)


def test_after_a_network_error_a_lock_can_still_be_released(server, client):
    for kind, kept in ((AtomicLock, True), (ForgetfulLock, False)):
        lock = kind(client, f"lock of {kind.__name__}")
        assert lock.acquire()
        server.connected = False
        with pytest.raises(redis.ConnectionError):
            lock.release()
        server.connected = True
        assert lock.owned() == kept
        if kept:
            lock.release()
            assert not lock.locked()


def test_a_release_leaves_alone_what_another_thread_has_taken_since_with_the_same_object(client):
    class Overtaken(AtomicLock):
        def do_release(self, token):
            done = super().do_release(token)
            thread = threading.Thread(target=self.acquire)
            thread.start()
            thread.join()
            return done

    lock = Overtaken(client, "lock", thread_local=False)
    lock.acquire()
    lock.release()
    assert lock.owned()


def test_a_thread_that_took_nothing_holds_nothing(client):
    lock = AtomicLock(client, "lock")
    lock.acquire()
    found = []
    thread = threading.Thread(target=lambda: found.append((lock.owned(), lock.local.token)))
    thread.start()
    thread.join()
    assert found == [(False, None)]
    assert lock.owned()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("bad", [0, -1, 0.0001, float("nan"), float("inf"), True, "30"])
def test_a_timeout_that_makes_no_sense_is_refused_at_once(client, kind, bad):
    with pytest.raises(LockError, match=r"timeout of lock 'job:1' is a number of seconds, 0\.001 or more") as caught:
        kind(client, "job:1", timeout=bad)
    assert caught.value.lock_name == "job:1"


@pytest.mark.parametrize("kind", ALL)
def test_what_is_no_client_and_what_is_no_name_is_refused_at_once(client, kind):
    for arguments in [("lock", client), (client, b"lock"), (None, "lock")]:
        with pytest.raises(LockError, match=r"A lock takes a redis\.Redis client and a text for its name, not "):
            kind(*arguments)


@pytest.mark.parametrize(("what", "bad"), [("sleep", -1), ("sleep", None), ("blocking_timeout", -0.1)])
def test_a_wait_that_makes_no_sense_is_refused_at_once(client, what, bad):
    with pytest.raises(LockError, match=rf"{what} of lock 'lock' is a number of seconds, 0 or more"):
        AtomicLock(client, "lock", **{what: bad})
    if bad is not None:
        with pytest.raises(LockError, match=rf"{what} of lock 'lock' is a number of seconds, 0 or more"):
            AtomicLock(client, "lock").acquire(**{what: bad})


@pytest.mark.parametrize("bad", [0, -5, None])
def test_a_lease_is_not_extended_by_nothing(client, bad):
    lock = AtomicLock(client, "lock", timeout=LEASE)
    lock.acquire()
    for replace in (True, False):
        with pytest.raises(LockError, match="additional_time of lock 'lock' is a number of seconds"):
            lock.extend(bad, replace_ttl=replace)
    assert lock.owned()


@pytest.mark.parametrize("what", ["release", "reacquire", "extend"])
def test_a_lock_that_is_not_held_is_neither_released_nor_renewed(client, what):
    lock = AtomicLock(client, "lock", timeout=LEASE)
    arguments = (1,) if what == "extend" else ()
    with pytest.raises(LockError, match=f"Cannot {what} lock 'lock': this thread does not hold it"):
        getattr(lock, what)(*arguments)
    lock.acquire()
    client.set("lock", "another's")
    with pytest.raises(LockNotOwnedError, match=f"Cannot {what} lock 'lock': it is no longer owned"):
        getattr(lock, what)(*arguments)
    assert client.get("lock") == b"another's"


@pytest.mark.parametrize("what", ["reacquire", "extend"])
def test_a_lock_without_a_timeout_is_not_renewed(client, what):
    lock = AtomicLock(client, "lock")
    lock.acquire()
    with pytest.raises(LockError, match=f"Cannot {what} lock 'lock': it has no timeout; construct it with one"):
        getattr(lock, what)(*((1,) if what == "extend" else ()))


def test_every_lock_says_what_it_guarantees_what_not_and_which_schedule_shows_it():
    for name in (*[kind.__name__ for kind in ALL], "FencedRegister"):
        kind = getattr(locks, name)
        assert re.search(r"^    Guarantees: .*^    Does not: .*^    Shown by ", kind.__doc__, re.MULTILINE | re.DOTALL)


# ---- a real server


@pytest.mark.parametrize("kind", [*SHOWN, FencedRegister])
def test_the_schedule_in_the_docstring_has_the_same_replies_on_a_real_server(kind, redis_url):
    told = shown(kind)[0]  # a failover is not replayed there
    trace = replay(told.scenario, told.schedule, redis_url=redis_url)
    assert trace == replay(told.scenario, told.schedule)
    assert trace.comparison.compared == sum(event.kind == "command" for event in trace.events)


# ---- in somebody's production code

PASTED = """
import sys
sys.modules["labkit"] = None  # importing it fails
import fakeredis
from our_locks import FencedLock, Renewal
client = fakeredis.FakeRedis()
with FencedLock(client, "lock", timeout=30) as lock, Renewal(lock) as renewal:
    renewal.check()
    print(lock.fencing_token, client.pttl("lock") > 0)
print(client.get("lock"))
"""


def test_the_folder_works_under_another_name_and_without_the_lab(tmp_path):
    shutil.copytree(Path(locks.__file__).parent, tmp_path / "our_locks")
    done = subprocess.run([sys.executable, "-c", PASTED], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "True", "None"], done.stderr
