"""A replica that takes over without the last writes, wall clocks that jump, and wall clocks that are wrong."""

import datetime
import time

import pytest

from labkit import LabError, ScenarioError, ScheduleError, explore, replay
from labkit.stores.embedded_redis import EmbeddedRedis

ONE = "at most one is inside"


def enter(r, section):
    if r.set("lock", "mine", nx=True, ex=30):
        with section("inside"):
            r.get("data")
        r.delete("lock")


def locked(lab):
    for name in "AB":
        lab.worker(name, enter, lab.redis(), lab.section)
    lab.always(ONE, lambda: lab.inside("inside") <= 1)


def test_a_lock_is_lost_when_a_replica_takes_over_that_lacks_it():
    assert explore(locked).outcome == "holds"
    verdict = explore(locked, failovers=1)
    assert str(verdict.counterexample.schedule) == "A failover B"
    assert "at most 1 failover" in str(verdict)
    assert verdict.counterexample.events[1].text == "a replica takes over; writes lost: lock"


def test_a_search_that_forgets_what_the_replica_lacks_misses_it(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "_followed", lambda self, before, entries: ())
    assert explore(locked, failovers=1).outcome == "holds"


def count_up(r):
    for _ in range(3):
        r.incr("count")


@pytest.mark.parametrize(("behind", "left"), [(1, b"2"), (2, b"1"), (9, None)])
def test_the_replica_lacks_as_many_writes_as_the_scenario_says(behind, left):
    def scenario(lab):
        r = lab.redis()
        lab.worker("A", count_up, lab.redis())
        lab.replica(behind=behind)
        lab.always("it still counts", lambda: True)
        lab.at_end("left", lambda: r.get("count") != left)

    trace = replay(scenario, "A A A")
    assert trace.over
    trace = explore(scenario, failovers=1).violations.get("left")
    assert trace is None or left in (b"1", b"2")
    third = replay(lambda lab: (scenario(lab), lab.worker("B", lambda: time.sleep(1))), "A A A failover clock B")
    assert third.violations[0].property == "left"


def test_a_watched_transaction_is_aborted_by_a_failover():
    def careful(r):
        with r.pipeline() as pipe:
            pipe.watch("k")
            pipe.get("k")
            pipe.multi()
            pipe.set("k", "new")
            print(pipe.execute(raise_on_error=False))

    def scenario(lab):
        lab.worker("A", careful, lab.redis())
        lab.always("true", lambda: True)

    with_failover = replay(scenario, "A A failover A")
    assert with_failover.events[-1].ending.error.startswith("WatchError")


def test_a_failover_is_not_replayed_on_a_real_server(redis_url):
    with pytest.raises(LabError, match="failover cannot be replayed on a real server"):
        replay(locked, "A failover B", redis_url=redis_url)


def wait_until(read_clock):
    """Work for ten seconds by some clock, and say how long it took by the right one."""

    def work(r):
        began, started = time.monotonic(), read_clock()
        while read_clock() - started < 10:
            time.sleep(5)
        r.set("took", int(time.monotonic() - began))

    def scenario(lab):
        r = lab.redis()
        lab.worker("A", work, lab.redis(), jump=-3600)
        lab.always("it takes ten seconds", lambda: int(r.get("took") or 10) == 10)

    return scenario


def test_a_wall_clock_that_jumps_back_stretches_a_wait_and_a_monotonic_clock_does_not():
    assert explore(wait_until(lambda: time.time())).outcome == "holds"
    verdict = explore(wait_until(lambda: time.time()), jumps=1, polls=2_000)
    assert verdict.outcome == "violated"
    jumps = [event for event in verdict.counterexample.events if event.kind == "jump"]
    assert [event.text for event in jumps] == ["its wall clock jumps by -3600 s"]
    assert explore(wait_until(lambda: time.monotonic()), jumps=1).outcome == "holds"


def test_a_jump_shows_in_every_wall_clock():
    def work():
        for _ in range(2):
            print(int(time.time()), time.time_ns() // 10**9, datetime.datetime.now(datetime.UTC).timestamp())
            time.sleep(1)

    def scenario(lab):
        lab.worker("A", work, jump=100)
        lab.always("true", lambda: True)

    trace = replay(scenario, "A A A jump:A clock A A A A")
    first, second = (list(map(float, line.split(": ")[1].split())) for line in trace.log().splitlines())
    assert [later - earlier for earlier, later in zip(first, second, strict=True)] == [101, 101, 101]


def test_a_worker_with_a_skewed_clock_sees_another_time():
    def work(r):
        r.set("time", int(time.time()))

    def scenario(lab):
        lab.worker("A", work, lab.redis())
        lab.worker("B", work, lab.redis(), skew=-7.5)
        lab.always("true", lambda: True)

    trace = replay(scenario, "A A B B")
    a, b = (int(event.text.split()[-1]) for event in trace.events if event.kind == "command")
    assert a - b == 8  # rounded down


def test_a_jump_or_failover_that_cannot_be_is_refused_in_words():
    with pytest.raises(ScheduleError, match="the scenario says no `jump=` for it"):
        replay(locked, "jump:A")
    with pytest.raises(ScheduleError, match="over after 6 choices"):
        replay(locked, "A A A B B B failover")
    with pytest.raises(ScheduleError, match="not a choice"):
        replay(locked, "failover:A")
    with pytest.raises(ScenarioError, match="behind is a number of writes"):
        explore(lambda lab: lab.replica(behind=0))
    with pytest.raises(ScenarioError, match="failovers is a number"):
        explore(locked, failovers=-1)
    for shift in ({"skew": float("nan")}, {"jump": float("inf")}, {"skew": "1"}):
        with pytest.raises(ScenarioError, match=r"is a number of seconds, at most 31,536,000, not"):
            explore(lambda lab, shift=shift: lab.worker("A", count_up, lab.redis(), **shift))
    with pytest.raises(ScenarioError, match="cannot name a worker"):
        explore(lambda lab: lab.worker("failover", count_up, lab.redis()))
