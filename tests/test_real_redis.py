"""The same schedule on a real redis-server gives the same replies."""

import random
import time

import fakeredis
import pytest
import redis
from fakeredis._core._database import Database

from labkit import LabError, RealServerDiffers, explore, replay, run
from labkit.__main__ import main
from labkit.interception import EPOCH
from labkit.stores.keyspace import RecordingDatabase
from tests import programs, test_choices, test_replay
from tests.random_programs import put_into, random_program

SCENARIOS = {
    "naive": (programs.naive, {}),
    "article's fix": (programs.article_fix, {"crashes": 1, "pauses": 1}),
    "one retry": (
        programs.status_race(programs.sound_completion, retry=programs.retry_once),
        {"crashes": 1, "pauses": 1},
    ),
    "three naive locks": (programs.naive_lock("ABC"), {}),
    "a long trace with tokens": (test_replay.sound_fix_broken, {}),
    "watch": (test_choices.counting(lambda r: r.set("n", int(r.get("n")) + 1)), {}),
    "lost replies": (test_choices.one(lambda r, mail: r.incr("n"), retries=1), {"lost_replies": 1}),
    "polling": (test_choices.poller(limit=10), {"polls": 20}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_counterexample_replays_with_the_same_replies(name, redis_url):
    scenario, budgets = SCENARIOS[name]
    verdict = explore(scenario, **budgets)
    assert verdict.violations
    for trace in verdict.violations.values():
        again = replay(scenario, trace.schedule, polls=budgets.get("polls", 3), redis_url=redis_url)
        assert again == trace
        assert again.comparison.compared >= sum(event.kind == "command" for event in trace.events)


@pytest.mark.parametrize("seed", range(200))
def test_random_schedules_of_random_programs_replay_with_the_same_replies(seed, redis_url):
    chance = random.Random(seed)
    made = {name: random_program(chance) for name in "ABC"}

    def scenario(lab):
        put_into(lab, made)

    trace = run(scenario, seed=seed)
    assert replay(scenario, trace.schedule, seed=seed, redis_url=redis_url) == trace


def kinds(lab):
    """One worker that uses every kind of value and request that the lab models."""

    def work(r):
        r.mset({"a": 1, "b": 2})
        r.hset("h", mapping={"x": 1, "y": 2})
        r.hgetall("h")
        r.hincrby("h", "x", 5)
        r.rpush("l", "1", "2", "3")
        r.lmove("l", "m", "LEFT", "RIGHT")
        r.blpop(["none", "l"], timeout=1)
        r.blpop(["none"], timeout=1)
        r.sadd("s", "p", "q")
        r.smembers("s")
        r.zadd("z", {"one": 1, "two": 2.5})
        r.zrange("z", 0, -1, withscores=True)
        r.zpopmin("z")
        r.set("t", "x", px=90_000)
        r.pttl("t")
        r.persist("t")
        r.getdel("a")
        r.keys("*")
        r.rename("b", "c")
        r.exists("a", "b", "c")
        r.eval("-- two\nredis.call('set', KEYS[1], ARGV[1]) return {KEYS[1], redis.call('get', KEYS[1])}", 1, "k", "v")
        with r.pipeline() as pipe:
            pipe.watch("k")
            pipe.get("k")
            pipe.multi()
            pipe.set("k", "w").lrange("m", 0, -1)
            pipe.execute()
        try:
            r.incr("k")
        except redis.ResponseError:
            r.time()

    lab.worker("A", work, lab.redis())


def test_every_kind_of_request_is_answered_alike(redis_url):
    trace = run(kinds)
    again = replay(kinds, trace.schedule, redis_url=redis_url)
    assert again == trace
    assert again.events[-1].ending.error is None
    assert "all as in the lab; not comparable: 1 (TIME)" in str(again.comparison)


def test_keys_of_others_are_left_alone_and_ones_own_are_removed(redis_url):
    client = redis.Redis.from_url(redis_url)
    client.set("job_status:1", "somebody else's")
    replay(programs.naive, "A B B B A A", redis_url=redis_url)
    assert client.get("job_status:1") == b"somebody else's"
    assert client.keys("*") == [b"job_status:1"]
    client.delete("job_status:1")


def test_a_difference_stops_the_replay_and_shows_both_replies(redis_url, monkeypatch):
    from labkit.stores.embedded_redis import EmbeddedRedis

    apply = EmbeddedRedis.apply

    def wrong(store, state, request, now):
        outcome = apply(store, state, request, now)
        return type(outcome)((b"invented",), outcome.state) if request.commands[0][0] == b"GET" else outcome

    monkeypatch.setattr(EmbeddedRedis, "apply", wrong)
    with pytest.raises(
        RealServerDiffers, match=r"worker A: GET job_status:1 was answered 'invented' in the lab and 'in-pr"
    ):
        replay(programs.naive, "A", redis_url=redis_url)


def test_a_whole_server_is_never_flushed(redis_url):
    def scenario(lab):
        lab.worker("A", lambda r: r.flushall(), lab.redis())

    with pytest.raises(LabError, match="concerns a whole server"):
        replay(scenario, "A", redis_url=redis_url)


def test_a_server_that_is_not_there_is_named_without_its_password():
    with pytest.raises(LabError, match=r"no Redis server to replay on at redis://127\.0\.0\.1:1"):
        replay(programs.naive, "A", redis_url="redis://:secret@127.0.0.1:1")


def test_the_command_line_replays_on_a_server_too(redis_url, capsys):
    assert main(["replay", "tests.programs:naive", "A B B B A A", "--redis-url", redis_url]) == 1
    assert "5 replies, all as in the lab" in capsys.readouterr().out


# ---- where fakeredis differs from Redis, and the lab sides with Redis (listed in labkit/stores/keyspace.py)


def test_exec_after_a_watched_key_expired_aborts_on_redis_and_in_the_lab_but_not_on_fakeredis(redis_url):
    def commits(client):
        client.set("w", 1, px=20)
        with client.pipeline() as pipe:
            pipe.watch("w")
            time.sleep(0.05)  # a real server's clock is its own
            pipe.multi()
            pipe.set("done", 1)
            try:
                pipe.execute()
                return True
            except redis.WatchError:
                return False
            finally:
                client.delete("done")

    assert commits(fakeredis.FakeRedis(server=fakeredis.FakeServer()))
    assert not commits(redis.Redis.from_url(redis_url))

    def scenario(lab):
        lab.worker("A", lambda r: lab.mail.send(str(commits(r))), lab.redis())
        lab.always("no commit", lambda: lab.mail.count("True") == 0)

    assert explore(scenario).outcome == "holds"


def test_a_group_read_that_finds_nothing_is_nil_on_redis_and_in_the_lab_but_not_on_fakeredis(redis_url):
    def scenario(lab):
        lab.redis().xgroup_create("s", "g", id="0", mkstream=True)
        lab.worker("A", lambda r: r.xreadgroup("g", "A", {"s": ">"}), lab.redis())

    trace = run(scenario)
    assert trace.events[0].reply == "nil"
    assert replay(scenario, trace.schedule, redis_url=redis_url) == trace

    client = fakeredis.FakeRedis(server=fakeredis.FakeServer(), protocol=3)
    client.xgroup_create("s", "g", id="0", mkstream=True)
    client.response_callbacks.clear()
    assert client.xreadgroup("g", "A", {"s": ">"}) == {}


def test_a_key_is_gone_at_its_deadline_in_the_lab_and_a_moment_later_on_fakeredis():
    class Item:
        expireat = 5.0

    moment = Database(None)
    moment.time = 5.0
    ours = RecordingDatabase(None)
    ours.time = EPOCH + 5.0
    Item.expireat = 5.0
    assert not moment.expired(Item)
    Item.expireat = EPOCH + 5.0
    assert ours.expired(Item)


@pytest.mark.parametrize("transaction", [True, False])
def test_an_id_that_the_clock_makes_is_the_labs_on_a_server_too(transaction, redis_url):
    def requeue(r):
        with r.pipeline(transaction=transaction) as pipe:
            pipe.xdel("s", "1-0").xadd("s", {"try": 2})
            pipe.execute()
        r.xrange("s")

    def scenario(lab):
        lab.redis().xadd("s", {"try": 1}, id="1-0")
        lab.worker("A", requeue, lab.redis())

    schedule = run(scenario).schedule
    assert replay(scenario, schedule, redis_url=redis_url).comparison.compared
