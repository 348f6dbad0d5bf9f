"""Publish/subscribe with redis-py's own `pubsub()`: at most once, and to nobody who is not there."""

import random
import signal
import threading
import time

import pytest
import redis

from labkit import ScenarioError, Unsupported, explore, replay, run
from labkit.engine import Budgets, Engine
from labkit.interception import intercepted
from labkit.machine import FINISHED
from labkit.search.breadth_first import BreadthFirst
from labkit.stores.base import Interned
from labkit.stores.embedded_redis import EmbeddedRedis, Request
from labkit.stores.keyspace import Keyspace
from tests import publish_subscribe_model as model


def listener(mail, timeout=None, channel="ch"):
    """A worker that mails the first message it gets, or `nothing`."""

    def work(r):
        with r.pubsub(ignore_subscribe_messages=True) as subscription:
            subscription.subscribe(channel)
            subscription.get_message()  # the confirmation
            message = subscription.get_message(timeout=timeout)
            mail.send(message["data"].decode() if message else "nothing")

    return work


def publisher(mail, *texts):
    """A worker that mails how many received each text."""

    def work(r):
        for text in texts:
            mail.send(f"{text} to {r.publish('ch', text)}")

    return work


def world(*listeners, texts=("x",)):
    """Listeners, each with its time-out, and a publisher P."""

    def scenario(lab):
        for name, timeout in zip("AB", listeners, strict=False):
            lab.worker(name, listener(lab.mail, timeout), lab.redis())
        lab.worker("P", publisher(lab.mail, *texts), lab.redis())
        lab.at_end("heard", lambda: lab.mail.count("x") == len(listeners))
        lab.at_end("heard once", lambda: lab.mail.count("x") <= len(listeners))

    return scenario


def texts(trace):
    return [event.summary for event in trace.events]


SUBSCRIBED = "SUBSCRIBE ch -> [subscribe, ch, 1]"
GET, GET_5 = "pubsub.get_message(timeout=None) -> ", "pubsub.get_message(timeout=5) -> "


# ---- who receives what


def test_what_is_published_before_the_subscription_is_lost():
    verdict = explore(world(None))
    assert set(verdict.violations) == {"heard"}
    assert texts(verdict.counterexample) == [
        "PUBLISH ch x -> 0",
        "mail.send(x to 0) -> done",
        SUBSCRIBED,
        "pubsub.get_message() -> [subscribe, ch, 1]",
    ]
    assert "A may be left waiting: pubsub.get_message(timeout=None)" in str(verdict)


def test_what_is_published_after_it_arrives_once_at_each_subscriber():
    trace = replay(world(None, None), "A A B B P A A B B P A B")
    assert trace.violation is None
    assert [text for text in texts(trace) if "x" in text] == [
        "PUBLISH ch x -> 2",
        GET + "[message, ch, x]",
        "mail.send(x) -> done",
        GET + "[message, ch, x]",
        "mail.send(x) -> done",
        "mail.send(x to 2) -> done",
    ]
    assert set(explore(world(None, None)).violations) == {"heard"}  # never heard twice


def test_a_message_is_read_in_the_order_of_publication():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch")
            data = [message["data"] for _, message in zip(range(3), subscription.listen(), strict=False)]
            lab.mail.send(str(data))

        lab.worker("A", work, lab.redis())
        lab.worker("P", publisher(lab.events, "x", "y"), lab.redis())
        lab.at_end("in order", lambda: lab.mail.count() == lab.mail.count("[1, b'x', b'y']"))

    assert explore(scenario).outcome == "holds"


def test_a_pattern_receives_what_its_channels_are_sent_and_says_which():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.psubscribe("c*")
            subscription.subscribe("ch")
            for message in subscription.listen():
                lab.mail.send(f"{message['type']} {message['pattern']} {message['data']}")

        lab.worker("A", work, lab.redis(decode_responses=True), forever=True)
        lab.worker("P", publisher(lab.events, "x"), lab.redis())

    trace = replay(scenario, "A A P A A A A A A A A P")
    assert [call.text for call in trace.events if call.kind == "call"] == [
        "mail.send(psubscribe None 1)",
        "mail.send(subscribe None 2)",
        "mail.send(message None x)",
        "mail.send(pmessage c* x)",
        "events.publish(x to 2)",
    ]


def test_a_handler_is_called_instead_of_a_message_being_returned():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub(ignore_subscribe_messages=True)
            subscription.subscribe(ch=lambda message: lab.mail.send(message["data"].decode()))
            subscription.get_message()
            assert subscription.get_message(timeout=None) is None

        lab.worker("A", work, lab.redis())
        lab.worker("P", publisher(lab.events, "x"), lab.redis())

    trace = replay(scenario, "A A P A A P")
    assert texts(trace)[3:5] == [GET + "[message, ch, x]", "mail.send(x) -> done"]
    assert all(event.ending is None or event.ending.error is None for event in trace.events)


def test_a_transaction_and_a_script_publish_as_one_step_with_the_rest_of_it():
    def scenario(lab):
        def publish(r):
            with r.pipeline() as pipe:
                lab.events.publish(str(pipe.set("k", 1).publish("ch", "x").execute()))
            r.eval("-- tell\nreturn redis.call('publish', KEYS[1], redis.call('get', 'k'))", 1, "ch")

        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch")
            for message in subscription.listen():
                lab.mail.send(str(message["data"]))

        lab.worker("A", work, lab.redis(), forever=True)
        lab.worker("P", publish, lab.redis())

    trace = replay(scenario, "A A A P P P A A A A")
    assert texts(trace)[3] == "MULTI SET k 1; PUBLISH ch x EXEC -> [OK, 1]"
    assert texts(trace)[5] == "script 'tell' ch -> 1"
    assert texts(trace)[6:] == [
        GET + "[message, ch, x]",
        "mail.send(b'x') -> done",
        GET + "[message, ch, 1]",
        "mail.send(b'1') -> done",
    ]


def test_a_transaction_that_is_aborted_publishes_nothing():
    def scenario(lab):
        def publish(r):
            with r.pipeline() as pipe:
                pipe.watch("k")
                pipe.multi()
                pipe.publish("ch", "x")
                pipe.execute()

        lab.worker("A", listener(lab.mail, timeout=5), lab.redis())
        lab.worker("P", publish, lab.redis())
        lab.worker("S", lambda r: r.set("k", 1), lab.redis())

    trace = replay(scenario, "A A P S P clock A A A")
    assert texts(trace)[4:7] == ["MULTI PUBLISH ch x EXEC -> nil", "5 s pass", GET_5 + "nil"]


def test_who_is_subscribed_can_be_asked_and_observed():
    def scenario(lab):
        observer = lab.redis()

        def ask(r):
            lab.mail.send(f"{r.pubsub_channels('c*')} {r.pubsub_numsub('ch', 'no')} {r.pubsub_numpat()}")

        lab.worker("A", listener(lab.events, timeout=5), lab.redis())
        lab.worker("B", listener(lab.events, timeout=5, channel="other"), lab.redis())
        lab.worker("C", ask, lab.redis())
        lab.always("at most one", lambda: observer.pubsub_numsub("ch")[0][1] <= 1)
        lab.always("nobody", lambda: observer.pubsub_numsub("ch")[0][1] == 0)

    trace = replay(scenario, "A B C C C C")
    assert texts(trace)[-1] == "mail.send([b'ch'] [(b'ch', 1), (b'no', 0)] 0) -> done"
    assert set(explore(scenario).violations) == {"nobody"}


# ---- the end of a subscription


def test_a_crash_of_the_subscriber_loses_the_message_whatever_the_publisher_was_told():
    def told(number):
        def scenario(lab):
            world(None)(lab)
            lab.at_end("told otherwise", lambda: lab.mail.count(f"x to {number}") == 0 or lab.mail.count("x") == 1)

        return scenario

    for number, schedule in ((1, "A A P crash:A P"), (0, "A A crash:A P P")):
        trace = replay(told(number), schedule)
        assert texts(trace)[-1] == f"mail.send(x to {number}) -> done"
        assert trace.over
        assert "told otherwise" in explore(told(number), crashes=1).violations
    assert "told otherwise" not in explore(told(1)).violations


def test_an_unsubscription_and_a_close_are_steps_after_which_nothing_arrives():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch")
            subscription.unsubscribe("ch")
            list(subscription.listen())  # ends when all is unsubscribed, and that is read
            subscription.subscribe("ch")
            subscription.close()
            r.set("k", 1)

        lab.worker("A", work, lab.redis())
        lab.worker("P", publisher(lab.mail, "x", "y", "z"), lab.redis())

    trace = replay(scenario, "A P A P P P A A A A A P A P")
    assert texts(trace) == [
        SUBSCRIBED,
        "PUBLISH ch x -> 1",
        "UNSUBSCRIBE ch -> [unsubscribe, ch, 0]",
        "mail.send(x to 1) -> done",
        "PUBLISH ch y -> 0",
        "mail.send(y to 0) -> done",
        GET + "[subscribe, ch, 1]",
        GET + "[message, ch, x]",
        GET + "[unsubscribe, ch, 0]",
        SUBSCRIBED,
        "pubsub.close() -> OK",
        "PUBLISH ch z -> 0",
        "SET k 1 -> OK",
        "mail.send(z to 0) -> done",
    ]


def test_an_object_that_python_collects_stays_subscribed_until_its_worker_ends():
    def scenario(lab):
        def work(r):
            r.pubsub().subscribe("ch")
            r.set("k", 1)

        lab.worker("A", work, lab.redis())
        lab.worker("P", publisher(lab.mail, "x", "y"), lab.redis())

    trace = replay(scenario, "A P P A P P")
    assert [event.reply for event in trace.events if event.text.startswith("PUBLISH")] == ["1", "0"]


# ---- waiting


def test_a_time_out_passes_on_the_labs_clock():
    trace = replay(world(5), "A A clock A A A P P")
    assert texts(trace)[2:5] == ["5 s pass", GET_5 + "nil", "mail.send(nothing) -> done"]
    assert trace.events[3].time == 5_000_000
    assert "heard" in explore(world(5)).violations


def test_a_message_ends_the_wait_before_its_time_out():
    trace = replay(world(5), "A A P A A A P")
    assert texts(trace)[3] == GET_5 + "[message, ch, x]"
    assert trace.events[3].time == 0


def test_a_look_without_time_out_is_one_step_that_never_waits():
    trace = replay(world(0), "A A A A A P P")
    assert texts(trace)[2:4] == ["pubsub.get_message() -> nil", "mail.send(nothing) -> done"]


def test_a_subscriber_that_polls_is_searched_to_the_end():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub(ignore_subscribe_messages=True)
            subscription.subscribe("ch")
            while True:
                message = subscription.get_message(timeout=1)
                if message:
                    lab.mail.send(message["data"].decode())

        lab.worker("A", work, lab.redis(), forever=True)
        lab.worker("P", publisher(lab.events, "x"), lab.redis())
        lab.at_end("told the truth", lambda: lab.mail.count("x") == lab.events.count("x to 1"))

    assert explore(scenario).outcome == "holds"
    assert set(explore(scenario, crashes=1).violations) == {"told the truth"}


def test_to_wait_without_a_subscription_takes_the_labs_time_only():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            assert subscription.get_message() is None
            assert subscription.get_message(timeout=3_600) is None
            r.set("k", 1)
            subscription.get_message(timeout=None)

        lab.worker("A", work, lab.redis())

    trace = run(scenario)
    assert trace.events[-1].text == "SET k 1"
    assert trace.events[-1].time == 3_600_000_000
    assert trace.waiting == ("A",)


# ---- faults of the connection


def loser(mail):
    def work(r):
        with r.pubsub(ignore_subscribe_messages=True) as subscription:
            subscription.subscribe("ch")
            for _ in range(4):
                try:
                    message = subscription.get_message(timeout=5)
                    if message:
                        mail.send(message["data"].decode())
                except redis.ConnectionError as error:
                    mail.send(str(error))

    return work


def losing(retries=0):
    def scenario(lab):
        lab.worker("A", loser(lab.mail), lab.redis(retries=retries), forever=True)
        lab.worker("P", publisher(lab.events, "x", "y"), lab.redis())
        lab.at_end("heard", lambda: lab.mail.count("x") == lab.events.count("x to 1"))

    return scenario


LOST = "mail.send(Connection to the lab's embedded Redis was lost) -> done"


def test_a_subscription_whose_confirmation_is_lost_is_gone_until_redis_py_makes_it_again():
    trace = replay(losing(), "lose:A P A P A P A A A P")
    assert texts(trace) == [
        "SUBSCRIBE ch -> the reply is lost",
        "PUBLISH ch x -> 0",  # the server has dropped the connection
        SUBSCRIBED,  # redis-py notices when it reads, and connects anew
        "events.publish(x to 0) -> done",
        LOST,
        "PUBLISH ch y -> 1",
        GET_5 + "[subscribe, ch, 1]",
        GET_5 + "[message, ch, y]",
        "mail.send(y) -> done",
        "events.publish(y to 1) -> done",
    ]


def test_a_message_whose_reading_is_lost_is_lost_with_its_connection():
    trace = replay(losing(), "A A P P lose:A P P A A")
    assert texts(trace)[4:] == [
        GET_5 + "the reply is lost",
        "PUBLISH ch y -> 0",
        "events.publish(y to 0) -> done",
        SUBSCRIBED,
        LOST,
    ]
    assert set(explore(losing(), lost_replies=1).violations) == {"heard"}
    assert explore(losing()).outcome == "holds"


def test_a_client_that_retries_subscribes_again_and_goes_on_without_an_error():
    trace = replay(losing(retries=1), "A A P lose:A A clock A A")
    assert texts(trace)[3:5] == [GET_5 + "the reply is lost", SUBSCRIBED]
    assert texts(trace)[-1] == GET_5 + "[subscribe, ch, 1]"
    assert LOST not in texts(trace)


def test_a_broken_connection_sends_nothing_before_it_is_made_again():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch")
            try:
                subscription.subscribe("other")
            except redis.ConnectionError:
                lab.mail.send("lost")

        lab.worker("A", work, lab.redis())

    trace = replay(scenario, "lose:A A A")
    assert texts(trace) == ["SUBSCRIBE ch -> the reply is lost", SUBSCRIBED, "mail.send(lost) -> done"]


def test_a_signal_reaches_a_subscriber_that_waits():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub(ignore_subscribe_messages=True)
            signal.signal(signal.SIGTERM, lambda *_: subscription.unsubscribe())
            subscription.subscribe("ch")
            for message in subscription.listen():
                lab.mail.send(message["data"].decode())

        lab.worker("A", work, lab.redis(), signals=1)
        lab.worker("P", publisher(lab.events, "x"), lab.redis())

    trace = replay(scenario, "A A signal:A A P P A")
    assert texts(trace)[2:5] == ["gets SIGTERM", "UNSUBSCRIBE -> [unsubscribe, ch, 0]", "PUBLISH ch x -> 0"]
    assert texts(trace)[-1] == GET + "[unsubscribe, ch, 0]"  # the wait that the signal interrupted
    assert trace.over


def test_a_failover_ends_every_subscription_until_redis_py_makes_it_again():
    def scenario(lab):
        lab.replica()
        losing()(lab)

    trace = replay(scenario, "A A failover P A P A P P A A A")
    assert texts(trace)[3:] == [
        "PUBLISH ch x -> 0",
        GET_5 + "[connection lost]",
        "events.publish(x to 0) -> done",
        SUBSCRIBED,
        "PUBLISH ch y -> 1",
        "events.publish(y to 1) -> done",
        LOST,
        GET_5 + "[subscribe, ch, 1]",
        GET_5 + "[message, ch, y]",
    ]


def test_a_failover_is_noticed_when_a_subscriber_sends():
    def scenario(lab):
        def work(r):
            with r.pubsub() as subscription:
                subscription.subscribe("ch")
                subscription.subscribe("other")
                list(zip(range(2), subscription.listen(), strict=False))

        lab.replica()
        lab.worker("A", work, lab.redis(retries=1))

    trace = replay(scenario, "A failover A A clock A A A A")
    assert [event.summary for event in trace.events if event.kind == "command"][1:] == [
        "SUBSCRIBE other -> [connection lost]",
        "SUBSCRIBE ch other -> [subscribe, other, 2]",
        GET + "[subscribe, ch, 1]",
        GET + "[subscribe, other, 2]",
        "pubsub.close() -> OK",
    ]


# ---- threads


def test_a_thread_of_redis_py_listens_and_is_stopped():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe(ch=lambda message: lab.mail.send(message["data"].decode()))
            thread = subscription.run_in_thread(sleep_time=1)
            time.sleep(3)
            thread.stop()
            thread.join()

        lab.worker("A", work, lab.redis())
        lab.worker("P", publisher(lab.events, "x"), lab.redis())
        lab.at_end("told the truth", lambda: lab.mail.count("x") == lab.events.count("x to 1"))

    assert explore(scenario).outcome == "holds"
    assert {event.worker for event in run(scenario).events} == {"A", "A/PubSubWorkerThread", "P", None}


def test_one_thread_ends_the_subscription_for_which_another_waits():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch")
            thread = threading.Thread(target=lambda: [lab.mail.send(m["type"]) for m in subscription.listen()])
            thread.start()
            time.sleep(1)
            subscription.unsubscribe()
            thread.join()

        lab.worker("A", work, lab.redis())
        lab.at_end("heard of it", lambda: [call.key for call in lab.mail.calls] == ["subscribe", "unsubscribe"])

    assert explore(scenario).outcome == "holds"


# ---- what redis-py offers besides


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_ping_of_the_worker_is_a_step_and_redis_py_sends_none_of_its_own(protocol):
    seen = []

    def work(r):
        subscription = r.pubsub(ignore_subscribe_messages=True)
        subscription.subscribe("ch")
        subscription.get_message()
        subscription.ping("hello")
        seen.append(subscription.get_message())

    trace = run(lambda lab: lab.worker("A", work, lab.redis(protocol=protocol)))
    get = "pubsub.get_message()"
    assert [event.text for event in trace.events] == ["SUBSCRIBE ch", get, "PING hello", get]
    assert seen[-1] == {"type": "pong", "pattern": None, "channel": None, "data": b"hello"}


def test_a_push_handler_sees_every_push():
    seen = []

    def work(r):
        subscription = r.pubsub(push_handler_func=lambda push: seen.append(push) or push)
        subscription.subscribe("ch")
        subscription.get_message()

    run(lambda lab: lab.worker("A", work, lab.redis(protocol=3)))
    assert seen[-1] == [b"subscribe", b"ch", 1]


@pytest.mark.parametrize(
    ("work", "complaint"),
    [
        (lambda r: r.pubsub().psubscribe("__keyevent@0__:expired"), "does not model keyspace notifications"),
        (lambda r: r.pipeline().execute_command("SUBSCRIBE", "ch").execute(), "does not model SUBSCRIBE in a trans"),
        (lambda r: r.pubsub().subscribe(), "SUBSCRIBE names no channel"),
        (lambda r: r.execute_command("SUBSCRIBE", "ch"), "SUBSCRIBE by hand"),
        (lambda r: r.pubsub().ssubscribe("ch"), "there are no shards; use SUBSCRIBE"),
        (lambda r: subscribed(r).execute_command("GET", "k"), "GET on a connection that is subscribed"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(work, complaint):
    with pytest.raises(Unsupported, match=complaint):
        run(lambda lab: lab.worker("A", work, lab.redis()))


def subscribed(r):
    subscription = r.pubsub()
    subscription.subscribe("ch")
    return subscription


def test_an_object_made_in_the_set_up_belongs_to_the_worker_that_is_given_it():
    def scenario(lab):
        subscription = lab.redis().pubsub()

        def work(subscription):
            subscription.subscribe("ch")
            lab.mail.send(str([subscription.get_message(timeout=None)["data"] for _ in range(2)]))

        lab.worker("A", work, subscription)
        lab.worker("P", publisher(lab.events, "x"), lab.redis())
        lab.at_end("heard", lambda: lab.mail.count("[1, b'x']") == 1)

    assert set(explore(scenario).violations) == {"heard"}
    assert replay(scenario, "A P A A P").violation is None

    def shared(lab):
        subscription = lab.redis().pubsub()
        for name in "AB":
            lab.worker(name, print, subscription)

    with pytest.raises(ScenarioError, match="given the same LabPubSub"):
        run(shared)


def test_a_subscription_in_the_set_up_is_refused():
    with pytest.raises(Unsupported, match="SUBSCRIBE belongs into a worker"):
        run(lambda lab: lab.redis().pubsub().subscribe("ch"))


def test_changed_keys_are_published_to_nobody_as_on_a_server_that_nobody_configured():
    def scenario(lab):
        def work(r):
            subscription = r.pubsub(ignore_subscribe_messages=True)
            subscription.psubscribe("*")
            subscription.get_message()
            r.set("k", 1)
            lab.mail.send(str(subscription.get_message()))

        lab.worker("A", work, lab.redis())

    assert texts(run(scenario))[-1] == "mail.send(None) -> done"


# ---- the state


def request(*words, connection=""):
    return Request(3, (tuple(map(str.encode, words)),), connection)


def reached(*requests):
    store, state = EmbeddedRedis(), 0
    with intercepted():
        for one in requests:
            state = store.apply(state, one, 0).state
    return store._states.values[state]


def test_equal_subscriptions_are_one_state_whatever_the_way_to_them():
    one = request("SUBSCRIBE", "b", connection="A/1"), request("PSUBSCRIBE", "a*", connection="A/1")
    other = request("SUBSCRIBE", "x", connection="B/1")
    again = request("SUBSCRIBE", "c", connection="B/1"), request("UNSUBSCRIBE", "c", connection="B/1")
    assert reached(*one, other) == reached(other, *one)
    assert (
        read(reached(*one, other)) == read(reached(other, *reversed(one))) == read(reached(*again, *one, *one, other))
    )
    assert reached(*one, request("pubsub.close", connection="A/1")) == reached()
    assert read(reached(*one, request("UNSUBSCRIBE", connection="A/1"))) == read(reached(one[1]))


def read(content):
    """The content once everything has been read."""
    return content._replace(subscribers=tuple(one._replace(inbox=()) for one in content.subscribers))


def test_what_is_not_read_belongs_to_the_state_until_it_is():
    start = request("SUBSCRIBE", "c", connection="A/1")
    publish, look = request("PUBLISH", "c", "x"), request("pubsub.get_message", connection="A/1")
    assert reached(start, publish) != reached(start) != reached(start, look)
    assert reached(start, publish, look, look) == reached(start, look) == reached(start, look, look)
    assert reached(start, publish, publish) != reached(start, publish)
    assert reached(publish, start) == reached(start)
    end = request("UNSUBSCRIBE", connection="A/1")
    assert reached(start, look, end) != reached(start, look, end, look) == reached()


def test_the_end_of_a_worker_ends_all_its_subscriptions_and_a_lost_connection_its_own():
    store, state = EmbeddedRedis(), 0
    for name in ("A/1", "A/2", "AB/1"):
        state = store.apply(state, request("SUBSCRIBE", "c", connection=name), 0).state
    left = [one.connection for one in store._states.values[store.hang_up(state, "A/")].subscribers]
    assert left == ["AB/1"]
    left = [one.connection for one in store._states.values[store.hang_up(state, "A/1")].subscribers]
    assert left == ["A/2", "AB/1"]


# ---- against every schedule on a server of a few lines


def program(operations, name):
    """The operations with redis-py; it ends by writing down what they answered."""

    def work(r):
        said, subscription = [], r.pubsub()
        for kind, *words in operations:
            if kind == "publish":
                said.append(r.publish(*words))
            elif kind in ("read", "wait"):
                said.append(plain(subscription.get_message(timeout=None if kind == "wait" else 0)))
            else:
                getattr(subscription, kind)(*words)
        r.set(name, repr(tuple(said)))

    return work


def plain(message):
    if message is None:
        return None
    found = message["type"], message["channel"].decode(), message["data"]
    found = (*found[:2], found[2].decode()) if isinstance(found[2], bytes) else found
    return found if message["pattern"] is None else (*found, message["pattern"].decode())


def searched(programs, crashes):
    """What each worker may have said in the end, over everything that the search reaches."""

    def scenario(lab):
        for name, operations in zip("ABC", programs, strict=False):
            lab.worker(name, program(operations, name), lab.redis())
        lab.always("true", lambda: True)

    with intercepted():
        engine = Engine(scenario, Budgets(crashes), absolute=False)
        try:
            found = set()
            for state in BreadthFirst(engine).run().ends:
                said = {key: value for key, _, value, _ in engine.world.stores[1].contents(state[1])}
                finished = [engine.number_of(state, place) == FINISHED for place in range(len(programs))]
                assert finished == [name.encode() in said for name in "ABC"[: len(programs)]]
                found.add(tuple(said.get(name.encode(), b"None").decode() for name in "ABC"[: len(programs)]))
        finally:
            engine.close()
    return found


def by_hand(programs, crashes):
    return {tuple(map(repr, said)) for said in model.outcomes(programs, crashes)}


def random_case(seed):
    chance = random.Random(seed)
    workers = chance.choice([2, 2, 3])
    return [model.random_operations(chance, 4 if workers == 2 else 3) for _ in range(workers)], chance.choice([0, 1])


# Each mutant below is wrong about one of these: a message before the end of a
# subscription, two messages in order, two subscribers, one that is known to end.
CRAFTED = [
    ([[("subscribe", "ab"), ("unsubscribe", "ab"), *[("read",)] * 3], [("publish", "ab", "x")] * 2], 0),
    ([[("subscribe", "ab"), ("wait",), ("wait",), ("wait",)], [("publish", "ab", "y"), ("publish", "ab", "x")]], 0),
    ([[("subscribe", "ab")], [("subscribe", "ab"), ("read",), ("read",)], [("publish", "ab", "x")]], 1),
    (
        [
            [("subscribe", "ab"), ("publish", "ac", "x")],
            [("subscribe", "ac"), ("wait",), ("wait",), ("publish", "ab", "y")],
        ],
        1,
    ),
]


def test_the_outcomes_of_a_publication_and_a_subscription_are_these_three():
    programs = [[("subscribe", "ab"), ("wait",), ("read",)], [("publish", "ab", "x")]]
    confirmed = ("subscribe", "ab", 1)
    expected = {((confirmed, None), (0,)), ((confirmed, None), (1,)), ((confirmed, ("message", "ab", "x")), (1,))}
    assert model.outcomes(programs, 0) == expected
    assert searched(programs, 0) == by_hand(programs, 0)


@pytest.mark.parametrize("seed", range(100))
def test_random_programs_reach_the_same_outcomes_in_both(seed):
    assert searched(*random_case(seed)) == by_hand(*random_case(seed))


def forget_the_inbox(monkeypatch):
    number = Interned.number

    def forgetful(self, value):
        if hasattr(value, "subscribers"):
            value = value._replace(subscribers=tuple(one._replace(inbox=()) for one in value.subscribers))
        return number(self, value)

    monkeypatch.setattr(Interned, "number", forgetful)


def forget_the_order_of_messages(monkeypatch):
    received = Keyspace.received

    def shuffled(self, subscribers):
        return tuple(one._replace(inbox=tuple(sorted(one.inbox))) for one in received(self, subscribers))

    monkeypatch.setattr(Keyspace, "received", shuffled)


def keep_the_dead_subscribed(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "hang_up", lambda self, state, connection: state)


def tell_one_subscriber_only(monkeypatch):
    received = Keyspace.received
    first = lambda self, subscribers: (*received(self, subscribers[:1]), *subscribers[1:])  # noqa: E731
    monkeypatch.setattr(Keyspace, "received", first)


@pytest.mark.parametrize(
    "mutant",
    [forget_the_inbox, forget_the_order_of_messages, keep_the_dead_subscribed, tell_one_subscriber_only],
    ids=lambda mutant: mutant.__name__,
)
def test_a_state_that_does_this_is_caught(mutant, monkeypatch):
    assert all(searched(*case) == by_hand(*case) for case in CRAFTED)
    mutant(monkeypatch)
    assert any(searched(*case) != by_hand(*case) for case in CRAFTED)


# ---- on a real server


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("seed", range(30))
def test_random_schedules_replay_on_a_real_server_with_the_same_replies_and_messages(seed, protocol, redis_url):
    programs, _ = random_case(seed)

    def scenario(lab):
        for name, operations in zip("ABC", programs, strict=False):
            lab.worker(name, program(operations, name), lab.redis(protocol=protocol))

    trace = run(scenario, seed=seed)
    again = replay(scenario, trace.schedule, seed=seed, redis_url=redis_url)
    assert again == trace
    closed = sum(event.text == "pubsub.close()" for event in trace.events)
    assert again.comparison.compared >= sum(event.kind == "command" for event in trace.events) - closed


def everything(protocol):
    def scenario(lab):
        def work(r):
            subscription = r.pubsub()
            subscription.subscribe("ch", "other")
            subscription.psubscribe("c*", "*h", "none")
            subscription.ping()
            subscription.unsubscribe()
            subscription.unsubscribe()
            while (message := subscription.get_message()) is None or message["type"] != "pong":
                pass
            while subscription.get_message(timeout=1):
                pass
            subscription.punsubscribe()
            list(subscription.listen())

        def publish(r):
            r.publish("ch", "x")
            with r.pipeline() as pipe:
                pipe.publish("ch", "y").set("k", 1).execute()
            r.eval("return redis.pcall('publish', 'ch', ARGV[1]) + redis.call('exists', KEYS[1])", 1, "k", "z")
            script = r.register_script(
                "return redis.call('PUBLISH', ARGV[1], 'w') + redis.call('publish', KEYS[1], 'v')"
            )
            script(keys=["ch"], args=["ch"])
            r.pubsub_channels()
            r.pubsub_channels("c*")
            r.pubsub_numsub("ch", "none")
            r.pubsub_numpat()

        lab.worker("A", work, lab.redis(protocol=protocol))
        lab.worker("P", publish, lab.redis(protocol=protocol))

    return scenario


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_every_kind_of_request_and_message_is_alike_and_what_is_not_comparable_is_counted(seed, protocol, redis_url):
    trace = run(everything(protocol), seed=seed)
    again = replay(everything(protocol), trace.schedule, seed=seed, redis_url=redis_url)
    assert again == trace
    assert all(event.ending is None or event.ending.error is None for event in trace.events)
    assert again.comparison.not_comparable == ["PUBSUB NUMPAT"]


@pytest.mark.parametrize(
    "schedule", ["lose:A P A P A P A A A P", "A A P P lose:A P P A A", "A A P crash:A P P", "A crash:A P P P P"]
)
def test_a_lost_connection_and_a_crash_are_alike_too(schedule, redis_url):
    assert replay(losing(), schedule, redis_url=redis_url) == replay(losing(), schedule)


def test_nothing_is_published_to_a_channel_of_somebody_else(redis_url):
    client = redis.Redis.from_url(redis_url)
    with client.pubsub(ignore_subscribe_messages=True) as somebody:
        somebody.subscribe("ch")
        assert somebody.get_message(timeout=5) is None  # the confirmation
        trace = run(everything(3))
        replay(everything(3), trace.schedule, redis_url=redis_url)
        client.publish("ch", "the first that comes")
        assert somebody.get_message(timeout=5)["data"] == b"the first that comes"


def test_a_message_that_a_real_server_does_not_send_stops_the_replay(redis_url, monkeypatch):
    from labkit import RealServerDiffers

    def invented(self, subscribers):
        return tuple(one._replace(inbox=(*one.inbox, (b"message", b"ch", b"z"))) for one in subscribers)

    monkeypatch.setattr(Keyspace, "received", invented)
    with pytest.raises(RealServerDiffers, match=r"was answered '.message, ch, z.' in the lab and '.message, ch, x.'"):
        replay(world(None), "A A P A", redis_url=redis_url)
