"""The embedded Redis: what touches fakeredis's internals still fits the fakeredis that is installed."""

import random

import pytest
import redis

from labkit.interception import intercepted, serving
from labkit.stores.embedded_redis import EmbeddedRedis, Request
from labkit.stores.keyspace import Keyspace

CONTENT = (
    (b"hash", "hash", ((b"a", b"1"), (b"b", b"2")), None),
    (b"list", "list", (b"2", b"1"), 1_500_000),
    (b"set", "set", (b"x", b"y"), None),
    (b"string", "string", b"v", 1),
    (b"zset", "zset", ((1.0, b"m"), (2.5, b"l")), 86_400_000_000),
)


def execute(keyspace, *words, now=0):
    with intercepted(), serving.at(now, random.Random(0)):
        return keyspace.execute(3, (tuple(map(str.encode, words)),))[0]


def test_a_content_that_is_loaded_dumps_as_it_was():
    keyspace = Keyspace()
    for now in (0, 7, 123_456_789):
        keyspace.load(CONTENT, now)
        assert keyspace.dump(now) == CONTENT


def test_loaded_values_answer_as_redis_does():
    keyspace = Keyspace()
    keyspace.load(CONTENT, 0)
    assert execute(keyspace, "LRANGE", "list", "0", "-1") == [b"2", b"1"]
    assert execute(keyspace, "HGET", "hash", "b") == b"2"
    assert execute(keyspace, "SISMEMBER", "set", "x") == 1
    assert execute(keyspace, "ZRANGE", "zset", "0", "-1") == [b"m", b"l"]
    assert execute(keyspace, "PTTL", "list") == 1500


@pytest.mark.parametrize(("elapsed", "reply"), [(1_499_999, 1), (1_500_000, 0), (1_500_001, 0)])
def test_a_key_is_gone_at_its_deadline(elapsed, reply):
    keyspace = Keyspace()
    keyspace.load(CONTENT, 0)
    assert execute(keyspace, "EXISTS", "list", now=elapsed) == reply


def test_footprints_name_the_keys_that_were_read_and_written():
    keyspace = Keyspace()
    keyspace.load((), 0)
    execute(keyspace, "SET", "a", "1")
    assert keyspace.footprint()[1] == ("a",)
    execute(keyspace, "GET", "a")
    assert keyspace.footprint() == (("a",), ())
    execute(keyspace, "EVAL", "return redis.call('set', KEYS[1], redis.call('get', 'a'))", "1", "b")
    assert keyspace.footprint()[1] == ("b",)
    assert "a" in keyspace.footprint()[0]


def request(*words):
    return Request(3, (tuple(map(str.encode, words)),))


def test_equal_contents_have_equal_numbers_whatever_the_way_to_them():
    store = EmbeddedRedis()
    with intercepted():
        one = store.apply(store.apply(0, request("SET", "a", "1"), 0).state, request("SET", "b", "1"), 0).state
        other = store.apply(store.apply(0, request("SET", "b", "1"), 0).state, request("SET", "a", "1"), 0).state
        assert one == other
        shorter = store.apply(0, request("SET", "a", "1", "EX", "20"), 0).state
        longer = store.apply(0, request("SET", "a", "1", "EX", "30"), 0).state
        assert shorter != longer == store.age(store.apply(0, request("SET", "a", "1", "EX", "50"), 0).state, 20_000_000)


def test_unordered_replies_have_an_order_that_no_hash_seed_changes():
    store = EmbeddedRedis()
    members = [f"m{number}" for number in range(20)]
    with intercepted():
        state = store.apply(0, request("SADD", "s", *reversed(members)), 0).state
        reply = store.apply(state, request("SMEMBERS", "s"), 0).reply[0]
    assert list(reply) == sorted(member.encode() for member in members)


def test_random_choices_of_the_server_depend_on_the_seed_alone():
    def popped(seed):
        store = EmbeddedRedis(seed)
        with intercepted():
            state = store.apply(0, request("SADD", "s", *map(str, range(50))), 0).state
            return store.apply(state, request("SPOP", "s"), 0).reply

    assert popped(0) == popped(0)
    assert len({repr(popped(seed)) for seed in range(10)}) > 1


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [True, False])
def test_clients_answer_in_the_types_that_redis_py_gives(protocol, decode):
    from labkit import run

    seen = {}

    def work(r):
        r.hset("h", mapping={"a": 1})
        r.zadd("z", {"m": 1.5})
        r.sadd("s", "x")
        r.rpush("l", "a", "b")
        seen["values"] = (r.hgetall("h"), r.zrange("z", 0, -1, withscores=True), r.smembers("s"), r.lrange("l", 0, -1))
        seen["flags"] = (r.set("k", "v"), r.set("k", "v", nx=True), r.get("none"), r.delete("k"), r.exists("k"))

    def scenario(lab):
        lab.worker("A", work, lab.redis(protocol=protocol, decode_responses=decode))

    run(scenario)
    import fakeredis

    inside = dict(seen)
    work(fakeredis.FakeRedis(server=fakeredis.FakeServer(), protocol=protocol, decode_responses=decode))
    assert inside == seen


def test_a_transaction_is_one_step_and_a_plain_pipeline_a_step_per_command():
    from labkit import run

    def scenario(transaction):
        def build(lab):
            def work(r):
                pipe = r.pipeline(transaction=transaction)
                pipe.incr("a")
                pipe.get("a")
                assert pipe.execute() == [1, b"1"]

            lab.worker("A", work, lab.redis())

        return build

    assert [event.text for event in run(scenario(True)).events] == ["MULTI INCRBY a 1; GET a EXEC"]
    assert [event.text for event in run(scenario(False)).events] == ["INCRBY a 1", "GET a"]


def test_a_registered_script_is_one_step_from_its_first_call_on():
    from labkit import run

    def scenario(lab):
        def work(r):
            script = r.register_script("-- add one\nreturn redis.call('incr', KEYS[1])")
            assert script(keys=["k"]) == 1
            with r.pipeline() as pipe:
                script(keys=["k"], client=pipe)
                assert pipe.execute() == [2]

        lab.worker("A", work, lab.redis())

    trace = run(scenario)
    assert [event.text for event in trace.events] == ["script 'add one' k", "MULTI script 'add one' k EXEC"]
    assert trace.events[-1].ending.error is None


def test_redis_pys_own_lock_runs_unchanged():
    from labkit import explore

    def scenario(lab):
        def work(r):
            lock = redis.lock.Lock(r, "lock", timeout=10, blocking=False)
            if lock.acquire():
                with lab.section("inside"):
                    r.get("data")
                lock.release()

        for name in "AB":
            lab.worker(name, work, lab.redis())
        lab.always("one inside", lambda: lab.inside("inside") <= 1)

    assert explore(scenario).outcome == "holds"
    assert explore(scenario, pauses=1).outcome == "violated"
