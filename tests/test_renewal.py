"""A lease that is renewed while a job runs: in the lab, and with real threads and no waiting, on a real server too."""

import queue
import threading
import time
from types import SimpleNamespace

import fakeredis
import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as RedisLock

import labkit.locks.renewal as renewal_file
from labkit import explore, replay
from labkit.locks import AtomicLock, FencedLock, LeaseLost, Renewal
from tests.docstrings import shown

PATIENCE = 10  # seconds until a test that hangs fails


class Ticks(threading.Event):
    """An event whose waits end when the test says so, because their time is over; or when it is set."""

    def __init__(self):
        super().__init__()
        self._waits, self._ends = queue.Queue(), queue.Queue()

    def wait(self, timeout=None):
        self._waits.put(timeout)
        return self._ends.get(timeout=PATIENCE)

    def set(self):
        super().set()
        self._ends.put(True)

    def tick(self):
        """Let an interval pass."""
        self._ends.put(False)

    def next_interval(self):
        """Wait until the next interval has begun; returns its length in seconds."""
        return self._waits.get(timeout=PATIENCE)


@pytest.fixture(params=["fakeredis", "a real server"])
def client(request):
    if request.param == "fakeredis":
        yield fakeredis.FakeRedis(server=fakeredis.FakeServer())
    else:
        client = redis.Redis.from_url(request.getfixturevalue("redis_url"))
        yield client
        client.delete("lock", "lock:token")


def renewal_of(lock, kind=Renewal):
    lock.acquire(blocking=False)
    renewal = kind(lock)
    renewal.stopped = Ticks()
    return renewal


def steal(client):
    """The lease ends, and another takes the lock."""
    client.set("lock", "another's")


@pytest.mark.parametrize("kind", [AtomicLock, FencedLock, RedisLock])
@pytest.mark.parametrize("thread_local", [True, False])
def test_the_lease_starts_again_every_third_of_the_timeout(client, kind, thread_local):
    lock = kind(client, "lock", timeout=30, thread_local=thread_local)
    with renewal_of(lock) as renewal:
        assert renewal.stopped.next_interval() == 10
        for _ in range(3):
            client.pexpire("lock", 5_000)
            renewal.stopped.tick()
            assert renewal.stopped.next_interval() == 10  # so the renewal between is over
            assert client.pttl("lock") > 20_000
            renewal.check()
    lock.release()


def test_a_worker_is_told_that_its_lease_was_lost(client):
    renewal = renewal_of(AtomicLock(client, "lock", timeout=30))
    with renewal:
        renewal.check()
        steal(client)
        renewal.stopped.tick()
        renewal.thread.join(PATIENCE)
        with pytest.raises(LeaseLost, match=r"Lock 'lock' was not renewed: Cannot reacquire .* no longer") as told:
            renewal.check()
    assert isinstance(renewal.lost, LockNotOwnedError)
    assert told.value.lock_name == "lock"
    assert client.get("lock") == b"another's"


def test_a_worker_is_told_that_the_network_failed():
    server = fakeredis.FakeServer()
    with renewal_of(AtomicLock(fakeredis.FakeRedis(server=server), "lock", timeout=30)) as renewal:
        server.connected = False
        renewal.stopped.tick()
        renewal.thread.join(PATIENCE)
        with pytest.raises(LeaseLost, match="Lock 'lock' was not renewed: "):
            renewal.check()
        assert isinstance(renewal.lost, redis.ConnectionError)


# ---- in the lab

ONE = "one worker at a time is inside"


def renews(r, section, seconds):
    """A job that takes so many seconds under a renewed lock, and asks before it goes in."""
    with AtomicLock(r, "lock", timeout=30) as lock, Renewal(lock) as renewal:
        time.sleep(seconds)
        renewal.check()
        with section("inside"):
            r.incr("data")


def comes_later(r, section, seconds):
    time.sleep(seconds)
    lock = AtomicLock(r, "lock", timeout=30)
    if lock.acquire(blocking=False):
        with section("inside"):
            r.incr("data")


def renewed(seconds=5, later=30):
    """A has a job and a lock; B, spared, comes when the lock would be free without a renewal."""

    def scenario(lab):
        lab.worker("A", renews, lab.redis(), lab.section, seconds)
        lab.worker("B", comes_later, lab.redis(), lab.section, later, spared=True)
        lab.always(ONE, lambda: lab.inside("inside") <= 1)

    return scenario


def test_a_renewed_lock_keeps_others_out_unless_its_holder_is_paused_between_the_check_and_its_effect():
    explore(renewed(seconds=45, later=40)).assert_holds()
    (told,) = shown(Renewal)
    assert replay(told.scenario, told.schedule).violation.property == ONE
    assert str(explore(renewed(), pauses=2).counterexample.schedule) == told.schedule


def test_a_job_that_was_paused_until_its_lease_was_over_does_not_get_past_the_check(monkeypatch):
    paused = "A A A clock clock clock B B A"  # and the thread that renews with it
    assert replay(renewed(), paused + " A").violation is None  # it reads the clock
    monkeypatch.setattr(renewal_file, "_why_unsafe", lambda renewal: renewal.lost)  # a mutant: no news is good news
    assert replay(renewed(), paused).violation.property == ONE


# ---- real threads


@pytest.fixture
def clock(monkeypatch):
    """What the renewal takes for the time, in seconds, to be set by the test."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(renewal_file, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def overslept(client, clock, kind=Renewal):
    """Whether `check` passes when a renewal has hung until the lease was over."""
    lock, asked, answered = AtomicLock(client, "lock", timeout=30), threading.Event(), threading.Event()
    renewal = renewal_of(lock, kind)
    with renewal:
        lock.do_reacquire = lambda token: (asked.set(), answered.wait(PATIENCE))[1]
        renewal.stopped.tick()
        assert asked.wait(PATIENCE)
        clock.seconds += 29
        renewal.check()
        clock.seconds += 1
        try:
            renewal.check()
            said = "passed"
        except LeaseLost as told:
            said = str(told)
        answered.set()
    lock.release()
    return said


def test_a_worker_whose_renewal_hangs_is_told_when_its_lease_is_over(client, clock):
    assert overslept(client, clock) == "Lock 'lock' was not renewed: not for its whole timeout, 30 seconds"

    class Trusting(Renewal):
        """A mutant: no news is good news."""

        def check(self):
            if self.lost is not None:
                raise LeaseLost(str(self.lost))

    assert overslept(client, clock, Trusting) == "passed"


def test_the_lease_is_counted_from_before_the_request_that_renewed_it(client, clock):
    lock = AtomicLock(client, "lock", timeout=30)
    renewal = renewal_of(lock)
    reacquire = lock.do_reacquire

    def answer_late(token):
        clock.seconds += 30
        return reacquire(token)

    lock.do_reacquire = answer_late
    with renewal, pytest.raises(LeaseLost, match="not for its whole timeout"):
        renewal.check()


def test_a_check_outside_of_the_block_never_passes(client):
    renewal = renewal_of(AtomicLock(client, "lock", timeout=30))
    for _ in range(2):
        with pytest.raises(LeaseLost, match="Lock 'lock' was not renewed: that happens inside of `with` only"):
            renewal.check()
        with renewal:
            renewal.check()


def test_a_lock_that_was_lost_before_the_block_is_not_worked_under(client):
    renewal = renewal_of(AtomicLock(client, "lock", timeout=30))
    steal(client)
    with pytest.raises(LockNotOwnedError, match="Cannot reacquire lock 'lock': it is no longer owned"), renewal:
        pass


def test_a_renewal_that_keeps_its_failure_to_itself_tells_its_worker_nothing(client):
    class Silent(Renewal):
        """A mutant: its thread dies, as in python-redis-lock 4.0.1."""

        def _renew(self, token):
            super()._renew(token)
            self.lost = None

    with renewal_of(AtomicLock(client, "lock", timeout=30), Silent) as renewal:
        steal(client)
        renewal.stopped.tick()
        renewal.thread.join(PATIENCE)
        renewal.check()


def test_after_the_block_nothing_is_renewed_and_no_thread_is_left(client):
    lock = AtomicLock(client, "lock", timeout=30)
    renewal = renewal_of(lock)
    for _ in range(2):  # a renewal can be used again
        lock.acquire(blocking=False)
        with renewal:
            assert renewal.thread.is_alive()
            assert renewal.thread.daemon  # a process that ends does not wait for it
        assert not renewal.thread.is_alive()
        lock.release()
    assert not lock.locked()


def test_a_block_that_raises_stops_the_renewal_too(client):
    renewal = renewal_of(AtomicLock(client, "lock", timeout=30))
    with pytest.raises(ZeroDivisionError), renewal:
        _ = 1 / 0
    assert not renewal.thread.is_alive()


@pytest.mark.parametrize(
    "lock", [AtomicLock(fakeredis.FakeRedis(), "lock"), RedisLock(fakeredis.FakeRedis(), "lock", timeout=0)]
)
def test_a_lock_without_a_timeout_cannot_be_renewed(lock):
    with pytest.raises(LockError, match="Cannot renew lock 'lock': it has no timeout; construct it with one"):
        Renewal(lock)


def test_a_lock_that_is_not_held_cannot_be_renewed(client):
    renewal = Renewal(AtomicLock(client, "lock", timeout=30))
    with pytest.raises(LockError, match="Cannot renew lock 'lock': this thread has not acquired it"), renewal:
        pass
