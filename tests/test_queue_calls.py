"""What each call to a queue does, on the embedded Redis and on a real server: the same tests for both."""

import inspect
import json
import math
import threading
import uuid

import fakeredis
import pytest
import redis

from labkit.queues import (
    InvalidMessageContents,
    MessageNotInflight,
    MessageTooLong,
    PopQueue,
    QueueDoesNotExist,
    QueueError,
    QueueNameExists,
    ReceiptHandleHasExpired,
    ReceiptHandleIsInvalid,
    ReliableQueue,
    StreamQueue,
    VisibilityQueue,
    stored_queue,
    visibility_scripts,
)


class Clock:
    """Stands for the module `time` of a client, so that no test waits."""

    now = 1_767_258_000.0

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stored_queue, "time", clock)
    return clock


@pytest.fixture(params=["embedded", "embedded, decoded", "embedded, protocol 3", "real", "real, decoded"])
def client(request):
    options = {"decode_responses": True} if "decoded" in request.param else {}
    options |= {"protocol": 3} if "protocol" in request.param else {}
    if request.param.startswith("embedded"):
        return fakeredis.FakeRedis(server=fakeredis.FakeServer(), **options)
    return redis.Redis.from_url(request.getfixturevalue("server"), **options)


@pytest.fixture
def name():
    """A name that no other test has."""
    return f"jobs-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def server(redis_url, name):
    """The real server, which other tests use too: nothing is left on it."""
    yield redis_url
    client = redis.Redis.from_url(redis_url)
    for key in list(client.scan_iter(match=f"*{name}*")):
        client.delete(key)


@pytest.fixture
def queue(client, name, clock):
    return VisibilityQueue.create(client, name, max_receive_count=3)


def bodies(messages):
    return [message.body for message in messages]


# ---- the visibility queue


def test_a_message_comes_as_it_was_sent(queue, clock):
    body = {"order": 1, "names": ["Ä", None, True], "price": 1.5}
    id = queue.send(body)
    clock.now += 2
    (message,) = queue.receive()
    assert (message.id, message.body, message.receive_count) == (id, body, 1)
    assert message.sent_at == clock.now - 2


def test_messages_come_in_the_order_in_which_they_became_visible(queue, clock):
    for number in range(12):
        queue.send(number)
    assert bodies(queue.receive(max_messages=10)) == list(range(10))
    assert bodies(queue.receive(max_messages=10)) == [10, 11]
    assert queue.receive() == []


def test_a_received_message_is_hidden_until_its_timeout_is_over(queue, clock):
    queue.send("job")
    (first,) = queue.receive()
    clock.now += 29.999
    assert queue.receive() == []
    clock.now += 0.001
    (second,) = queue.receive()
    assert (second.id, second.receive_count) == (first.id, 2)
    assert second.receipt_handle != first.receipt_handle


def test_a_receive_may_choose_another_timeout(queue, clock):
    queue.send("job")
    queue.receive(visibility_timeout=5)
    clock.now += 5
    assert bodies(queue.receive(visibility_timeout=0)) == ["job"]
    assert bodies(queue.receive()) == ["job"]


def test_a_timeout_of_zero_gives_each_message_once_in_a_receive(queue, clock):
    for number in range(3):
        queue.send(number)
    assert bodies(queue.receive(max_messages=10, visibility_timeout=0)) == [0, 1, 2]


def test_a_delayed_message_becomes_visible_later(queue, clock):
    queue.send("later", delay=10)
    queue.send("now")
    assert bodies(queue.receive(max_messages=10)) == ["now"]
    clock.now += 10
    assert bodies(queue.receive(max_messages=10)) == ["later"]


def test_a_deleted_message_is_gone_and_deleting_it_again_says_so(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    assert queue.delete(message.receipt_handle) is True
    assert queue.delete(message.receipt_handle) is False
    clock.now += 60
    assert queue.receive() == []


def test_a_receipt_works_after_the_timeout_until_somebody_else_receives(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    clock.now += 60
    assert queue.delete(message.receipt_handle)
    assert queue.deadlines() == {}


def test_change_visibility_counts_from_the_call_and_for_this_delivery_only(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    clock.now += 20
    assert queue.change_visibility(message.receipt_handle, 100)
    assert list(queue.deadlines().values()) == [clock.now + 100]
    clock.now += 100
    queue.receive()
    assert list(queue.deadlines().values()) == [clock.now + 30]


def test_change_visibility_to_zero_gives_the_message_back(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    queue.change_visibility(message.receipt_handle, 0)
    assert bodies(queue.receive()) == ["job"]


def test_change_visibility_is_refused_when_there_is_no_timeout_to_change(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    clock.now += 30
    with pytest.raises(MessageNotInflight, match="visible again, deleted, or a dead letter"):
        queue.change_visibility(message.receipt_handle, 30)
    queue.delete(message.receipt_handle)
    with pytest.raises(MessageNotInflight):
        queue.change_visibility(message.receipt_handle, 30)


def test_a_delivery_is_hidden_for_twelve_hours_at_most(queue, clock):
    queue.send("job")
    (message,) = queue.receive()
    clock.now += 1
    with pytest.raises(ValueError, match="no later than 43,200 seconds after the receive"):
        queue.change_visibility(message.receipt_handle, 43_200)
    assert queue.change_visibility(message.receipt_handle, 43_199)


@pytest.mark.parametrize(("rule", "deleted"), [("ignore", False), ("delete", True), ("error", None)])
def test_what_an_old_receipt_does_is_the_queues_rule(client, name, clock, rule, deleted):
    queue = VisibilityQueue.create(client, name, old_receipts=rule)
    queue.send("job")
    (first,) = queue.receive()
    clock.now += 30
    (second,) = queue.receive()
    if deleted is None:
        with pytest.raises(ReceiptHandleHasExpired):
            queue.change_visibility(first.receipt_handle, 0)
        with pytest.raises(ReceiptHandleHasExpired):
            queue.delete(first.receipt_handle)
    else:
        assert queue.change_visibility(first.receipt_handle, 10) is deleted
        assert queue.delete(first.receipt_handle) is deleted
    assert queue.delete(second.receipt_handle) is (not deleted)


def test_what_is_received_too_often_becomes_a_dead_letter_and_can_be_sent_again(queue, clock):
    id = queue.send("poison")
    queue.send("good")
    for count in (1, 2, 3):
        assert queue.receive(visibility_timeout=0)[0].receive_count == count
    assert bodies(queue.receive()) == ["good"]
    dead = queue.dead_letters
    (letter,) = dead.receive()
    assert (letter.id, letter.body, letter.receive_count) == (id, "poison", 4)
    assert queue.redrive() == 0  # somebody is looking at it
    dead.change_visibility(letter.receipt_handle, 0)
    assert queue.redrive() == 1
    (again,) = queue.receive()
    assert (again.body, again.receive_count) == ("poison", 1)
    assert again.id != id
    assert dead.deadlines() == {}


def test_a_message_past_its_retention_is_dropped(client, name, clock):
    queue = VisibilityQueue.create(client, name, retention=60)
    queue.send("old")
    clock.now += 59.999
    queue.send("new")
    assert bodies(queue.receive(visibility_timeout=0)) == ["old"]
    clock.now += 0.001
    assert bodies(queue.receive(max_messages=10)) == ["new"]
    assert queue.attributes().expired == 1


def test_the_attributes_are_what_metrics_need(queue, clock):
    for number in range(4):
        queue.send(number)
    queue.send("later", delay=900)
    first, second = queue.receive(max_messages=2)
    queue.delete(first.receipt_handle)
    clock.now += 10
    queue.change_visibility(second.receipt_handle, 0)
    queue.receive()
    now = queue.attributes()
    assert (now.visible, now.in_flight, now.delayed, now.oldest_message_age) == (2, 1, 1, 10.0)
    assert (now.sent, now.received, now.redelivered, now.deleted) == (5, 3, 0, 1)
    assert (now.dead_lettered, now.expired) == (0, 0)
    clock.now += 30
    queue.receive(max_messages=10)
    assert queue.attributes().redelivered == 2
    clock.now += 900
    for _ in range(3):
        queue.receive(max_messages=10, visibility_timeout=0)
    assert queue.attributes().dead_lettered == 3
    assert queue.dead_letters.attributes().visible == 3


def test_an_empty_queue_has_no_age_and_no_deadlines(queue, clock):
    assert queue.attributes().oldest_message_age == 0
    assert queue.deadlines() == {}


def test_deadlines_are_when_messages_become_visible(queue, clock):
    queue.send("one", delay=7)
    queue.send("two")
    queue.receive()
    assert sorted(queue.deadlines().values()) == [clock.now + 7, clock.now + 30]


def test_finding_nothing_changes_nothing(queue, client, name, clock):
    queue.send("hidden", delay=900)
    before = {key: client.dump(key) for key in client.scan_iter(match=f"*{name}*")}
    assert queue.receive() == []
    assert {key: client.dump(key) for key in client.scan_iter(match=f"*{name}*")} == before


def test_creating_a_queue_again_finds_it_and_never_changes_it(client, name, clock):
    first = VisibilityQueue.create(client, name, visibility_timeout=30)
    first.send("job")
    assert VisibilityQueue.create(client, name, visibility_timeout=30).attributes().visible == 1
    with pytest.raises(QueueNameExists, match="has other rules"):
        VisibilityQueue.create(client, name, visibility_timeout=60)
    assert bodies(first.receive()) == ["job"]
    assert list(first.deadlines().values()) == [clock.now + 30]


def test_a_waiting_receive_hears_of_a_message_that_is_sent(server, name):
    mine, theirs = redis.Redis.from_url(server), redis.Redis.from_url(server, protocol=3)
    VisibilityQueue.create(mine, name)
    got = []
    waiter = threading.Thread(target=lambda: got.extend(VisibilityQueue(mine, name).receive(wait=20)))
    waiter.start()
    while not theirs.info("clients")["blocked_clients"]:
        pass
    VisibilityQueue(theirs, name).send("news")
    waiter.join()
    assert bodies(got) == ["news"]


def test_a_client_may_wait_for_longer_than_its_socket_does(server, name):
    client = redis.Redis.from_url(server, socket_timeout=0.5)
    assert VisibilityQueue.create(client, name).receive(wait=0.6) == []


# ---- calls that are refused, and lose nothing

CALLS = {
    "send": lambda queue: queue.send("job"),
    "receive": lambda queue: queue.receive(),
    "waiting receive": lambda queue: queue.receive(wait=20),
    "delete": lambda queue: queue.delete(f"{queue.name}/{queue.name}-000001/1"),
    "change_visibility": lambda queue: queue.change_visibility(f"{queue.name}/{queue.name}-000001/1", 1),
    "redrive": lambda queue: queue.redrive(),
    "attributes": lambda queue: queue.attributes(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_queue_that_nobody_created_is_named_at_once(client, name, clock, call):
    with pytest.raises(QueueDoesNotExist, match=f"queue '{name}': nobody has created it"):
        CALLS[call](VisibilityQueue(client, name))


def test_redriving_without_a_dead_letter_queue_is_refused(client, name, clock):
    with pytest.raises(QueueDoesNotExist, match="create it with max_receive_count"):
        VisibilityQueue.create(client, name).redrive()


BAD_VALUES = {
    "visibility_timeout": [-1, 43_200.001, math.nan, math.inf, "30", None, True],
    "retention": [59, 1_209_601, 0],
    "max_receive_count": [0, -1, 1_001, 1.5, True],
    "old_receipts": ["forget", None],
    "delay": [-1, 901, -0.001, "1", None],
    "max_messages": [0, 11, -1, 1.5, True, None],
    "wait": [-1, 20.5, math.nan, None],
    "seconds": [-1, 43_201, None],
}
REFUSED = [(parameter, value) for parameter, values in BAD_VALUES.items() for value in values]


@pytest.mark.parametrize(("parameter", "value"), REFUSED)
def test_a_value_out_of_range_is_refused_by_name_and_nothing_is_lost(parameter, value, clock):
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    queue = VisibilityQueue.create(client, "jobs")
    queue.send("job")
    (held,) = (queue.send("held"), queue.receive(visibility_timeout=100))[1]
    before = queue.attributes()
    with pytest.raises(ValueError, match=f"{parameter} is .*; it must be"):  # noqa: PT012
        if parameter == "delay":
            queue.send("no", delay=value)
        elif parameter in ("max_messages", "wait"):
            queue.receive(**{parameter: value})
        elif parameter == "seconds":
            queue.change_visibility(held.receipt_handle, value)
        elif parameter == "visibility_timeout" and value is not None:
            queue.receive(visibility_timeout=value)
        else:
            VisibilityQueue.create(client, "others", **{parameter: value})
    assert queue.attributes() == before
    assert client.keys("*others*") == []


@pytest.mark.parametrize("value", ["", "a b", "a:b", "a/b", "x" * 81, None, b"jobs"])
def test_a_queues_name_is_checked(value):
    with pytest.raises(ValueError, match="1 to 80 letters"):
        VisibilityQueue(fakeredis.FakeRedis(), value)


def circle():
    body = []
    body.append(body)
    return body


BAD_BODIES = {"a set": {1}, "bytes": b"job", "not a number": math.nan, "a circle": circle(), "an object": object()}
SENDERS = {
    "visibility": lambda client, name: VisibilityQueue.create(client, name),
    "pop": PopQueue,
    "reliable": lambda client, name: ReliableQueue(client, name, "A"),
    "stream": lambda client, name: StreamQueue(client, name, "A"),
}


@pytest.mark.parametrize("kind", SENDERS)
@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_body_that_is_no_json_is_refused_and_not_sent(kind, body):
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    queue = SENDERS[kind](client, "jobs")
    before = client.keys("*")
    with pytest.raises(InvalidMessageContents, match="body cannot be written as JSON"):
        queue.send(BAD_BODIES[body])
    assert client.keys("*") == before


@pytest.mark.parametrize("kind", SENDERS)
def test_the_largest_body_is_sent_and_a_larger_one_is_not(kind):
    queue = SENDERS[kind](fakeredis.FakeRedis(server=fakeredis.FakeServer()), "jobs")
    largest = "x" * (1_048_576 - 2)  # its JSON has two quotation marks
    with pytest.raises(MessageTooLong, match=r"1,048,577 bytes .* at most 1,048,576"):
        queue.send(largest + "x")
    queue.send(largest)


HANDLES = ["", "garbage", "others/others-000001/1", "jobs/jobs-000001", "jobs/jobs-000001/0", "jobs/jobs-000001/x"]
HANDLES += ["jobs/jobs-000001/-1", "jobs/jobs-000001/²", "jobs/jobs-000001/2", "jobs//1", None, b"jobs/jobs-000001/1"]


@pytest.mark.parametrize("handle", HANDLES)
def test_a_receipt_handle_that_was_never_given_out_is_refused_and_deletes_nothing(handle, clock):
    queue = VisibilityQueue.create(fakeredis.FakeRedis(server=fakeredis.FakeServer()), "jobs")
    queue.send("job")
    queue.receive()
    for call in (queue.delete, lambda handle: queue.change_visibility(handle, 0)):
        with pytest.raises(ReceiptHandleIsInvalid, match="never gave out"):
            call(handle)
    assert queue.attributes().in_flight == 1


@pytest.mark.parametrize("make", [PopQueue, lambda r, name: ReliableQueue(r, name, "A"), VisibilityQueue.create])
def test_who_passes_a_whole_message_is_told_to_pass_its_receipt_handle(make):
    queue = make(fakeredis.FakeRedis(server=fakeredis.FakeServer()), "jobs")
    queue.send("job")
    (message,) = queue.receive()
    if not isinstance(queue, PopQueue):  # which deletes nothing
        with pytest.raises(ReceiptHandleIsInvalid, match=r"pass message\.receipt_handle"):
            queue.delete(message)
    assert queue.delete(message.receipt_handle) is True


def test_a_rule_that_there_is_not_is_named_beside_those_that_there_are():
    rules = "visibility_timeout, retention, max_receive_count, old_receipts"
    with pytest.raises(TypeError, match=f"create does not know visibility; a queue's rules are {rules}"):
        VisibilityQueue.create(fakeredis.FakeRedis(), "jobs", visibility=60)


def test_what_recover_gives_back_is_this_workers_alone_oldest_first(client, name):
    a, b = ReliableQueue(client, name, "A"), ReliableQueue(client, name, "B")
    for number in range(3):
        a.send(number)
    assert bodies([*a.receive(), *b.receive(), *a.receive()]) == [0, 1, 2]
    assert [a.recover(), a.recover()] == [2, 0]
    assert bodies([*b.receive(), *b.receive(), *b.receive()]) == [0, 2]
    assert b.recover() == 3


def test_every_error_of_the_queues_is_a_queue_error():
    errors = [InvalidMessageContents, MessageNotInflight, MessageTooLong, QueueDoesNotExist, QueueNameExists]
    assert all(issubclass(error, QueueError) for error in [*errors, ReceiptHandleHasExpired, ReceiptHandleIsInvalid])


# ---- lists


@pytest.fixture(params=["pop", "reliable"])
def list_queue(request, client, name):
    return PopQueue(client, name) if request.param == "pop" else ReliableQueue(client, name, "A")


def test_a_list_gives_the_oldest_message_first_and_each_once(list_queue):
    for number in range(3):
        list_queue.send({"number": number})
    assert [bodies(list_queue.receive()) for _ in range(4)] == [[{"number": n}] for n in range(3)] + [[]]


def test_a_list_that_is_waited_for_gives_what_is_there(list_queue):
    list_queue.send("job")
    assert bodies(list_queue.receive(wait=1)) == ["job"]


def test_an_entry_of_somebody_else_that_is_no_json_comes_as_text(list_queue, client, name):
    client.lpush(name, "{")
    assert bodies(list_queue.receive()) == ["{"]


@pytest.mark.parametrize("wait", [-1, math.nan, None, 43_201])
def test_a_wait_out_of_range_is_refused(list_queue, wait):
    list_queue.send("job")
    with pytest.raises(ValueError, match="wait is"):
        list_queue.receive(wait=wait)
    assert bodies(list_queue.receive()) == ["job"]


def test_a_wait_that_the_clients_socket_would_cut_short_is_refused():
    impatient = redis.Redis(socket_timeout=5)
    for queue in (PopQueue(impatient, "jobs"), ReliableQueue(impatient, "jobs", "A"), StreamQueue(impatient, "j", "A")):
        with pytest.raises(ValueError, match=r"at most 4\.8, a little less than the client's"):
            queue.receive(wait=4.9)


def test_a_processing_list_has_what_a_worker_has_not_deleted(client, name):
    queue = ReliableQueue(client, name, "A")
    queue.send("one")
    queue.send("two")
    (one,), (two,) = queue.receive(), queue.receive()
    assert client.llen(f"{name}:processing:A") == 2
    assert queue.delete(one.receipt_handle) is True
    assert queue.delete(one.receipt_handle) is False
    with pytest.raises(ReceiptHandleIsInvalid, match="never gave out"):
        ReliableQueue(client, "others", "A").delete(two.receipt_handle)
    assert client.llen(f"{name}:processing:A") == 1


def test_a_receipt_handle_of_a_reliable_queue_deletes_no_other_message_with_the_same_body(client, name):
    queue = ReliableQueue(client, name, "A")
    queue.send("same")
    queue.send("same")
    (one,), (two,) = queue.receive(), queue.receive()
    assert [queue.delete(one.receipt_handle), queue.delete(one.receipt_handle)] == [True, False]
    assert one.id != two.id
    assert queue.delete(two.receipt_handle) is True


def test_a_reaper_gives_back_what_dead_workers_had_oldest_first(client, name):
    a, b = (ReliableQueue(client, name, worker) for worker in "AB")
    for body in ("one", "two", "three"):
        a.send(body)
    (one,) = a.receive()
    a.receive()
    assert b.reap() == 0
    client.delete(f"{name}:alive:A")  # 60 seconds later
    assert b.reap() == 2
    assert a.delete(one.receipt_handle) is False
    assert [bodies(b.receive()) for _ in range(3)] == [["one"], ["two"], ["three"]]


def test_a_wait_as_long_as_a_heartbeat_is_refused():
    queue = ReliableQueue(fakeredis.FakeRedis(), "jobs", "A", heartbeat_ttl=2)
    with pytest.raises(ValueError, match="less than heartbeat_ttl, 2 seconds"):
        queue.receive(wait=2)


@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_heartbeat_lasts_for_some_time(value):
    with pytest.raises(ValueError, match="heartbeat_ttl is"):
        ReliableQueue(fakeredis.FakeRedis(), "jobs", "A", heartbeat_ttl=value)


# ---- streams


@pytest.fixture
def stream(client, name):
    queue = StreamQueue(client, name, "A", max_deliveries=2)
    queue.create()
    queue.create()
    return queue


def claimed(queue):
    """What comes once a millisecond has passed."""
    while not (messages := queue.claim(min_idle=0.001, max_messages=10)) and not queue.dead_letters():
        pass
    return messages


def test_a_stream_gives_new_messages_only(stream):
    ids = [stream.send(number) for number in range(3)]
    messages = stream.receive(max_messages=2)
    assert [(message.id, message.body, message.receive_count) for message in messages] == [
        (ids[0], 0, 1),
        (ids[1], 1, 1),
    ]
    assert messages[0].sent_at == int(ids[0].split("-")[0]) / 1_000
    assert bodies(stream.receive(max_messages=2, wait=1)) == [2]
    assert stream.receive() == []


def test_a_claim_delivers_again_until_it_is_too_often(stream, client, name):
    stream.send("poison")
    (first,) = stream.receive()
    other = StreamQueue(client, name, "B", max_deliveries=2)
    assert other.claim(min_idle=100) == []
    (second,) = claimed(other)
    assert (second.id, second.receive_count) == (first.id, 2)
    assert claimed(other) == []
    assert [(letter.id, letter.body) for letter in other.dead_letters()] == [(first.id, "poison")]
    assert client.xlen(name) == 0


def test_a_deleted_entry_leaves_the_stream(stream, client, name):
    stream.send("job")
    (message,) = stream.receive()
    assert stream.delete(message.receipt_handle) is True
    assert stream.delete(message.receipt_handle) is False
    assert client.xlen(name) == 0
    with pytest.raises(ReceiptHandleIsInvalid):
        stream.delete("others/1-1")


def test_a_claim_looks_past_entries_that_are_not_idle_yet(stream, client, name):
    """One XAUTOCLAIM looks at ten entries for each that it may give."""
    for number in range(25):
        stream.send(number)
    old = stream.receive(max_messages=25)[-1]
    client.xclaim(name, "workers", "A", 0, [old.id], idle=500_000)
    assert bodies(StreamQueue(client, name, "B").claim(min_idle=400)) == [24]


@pytest.mark.parametrize("exists", [True, False])
def test_a_stream_without_its_group_is_named(client, name, exists):
    queue = StreamQueue(client, name, "A")
    if exists:
        queue.send("job")
    for call in (queue.receive, lambda: queue.claim(min_idle=1)):
        with pytest.raises(QueueDoesNotExist, match=f"no stream '{name}' with a group 'workers'"):
            call()


def test_an_entry_of_somebody_else_comes_as_its_fields(stream, client, name):
    client.xadd(name, {"other": "field"})
    assert bodies(stream.receive()) == [{"other": "field"}]


@pytest.mark.parametrize("value", [0, -1, math.nan, None])
def test_a_stream_checks_its_numbers(stream, value):
    with pytest.raises(ValueError, match="min_idle is"):
        stream.claim(min_idle=value)
    with pytest.raises(ValueError, match="max_messages is"):
        stream.receive(max_messages=value)
    if value is not None:
        with pytest.raises(ValueError, match="max_deliveries is"):
            StreamQueue(stream.client, "jobs", "A", max_deliveries=value)


def test_bodies_in_lists_are_plain_json(client, name):
    PopQueue(client, name).send({"order": 1})
    assert json.loads(client.lindex(name, 0)) == {"order": 1}


# ---- the tests above find what is broken

MUTANTS = {
    "a delay is forgotten": ("SEND", "ARGV[1] + ARGV[2]", "ARGV[1]", test_a_delayed_message_becomes_visible_later),
    "messages come in any order": (
        "RECEIVE",
        "call('ZRANGEBYSCORE', queue .. ':visible_at', '-inf', now,",
        "call('ZREVRANGEBYSCORE', queue .. ':visible_at', now, '-inf',",
        test_messages_come_in_the_order_in_which_they_became_visible,
    ),
    "a receive's own timeout is forgotten": (
        "RECEIVE",
        "if timeout < 0 then",
        "if true then",
        test_a_receive_may_choose_another_timeout,
    ),
    "a timeout of zero gives one message again": (
        "RECEIVE",
        "timeout == 0 and #given or 0",
        "0",
        test_a_timeout_of_zero_gives_each_message_once_in_a_receive,
    ),
    "a late receipt is refused": (
        "DELETE",
        "if not latest",
        "if not latest or latest > 0",
        test_a_receipt_works_after_the_timeout_until_somebody_else_receives,
    ),
    "more time is added to what is left": (
        "CHANGE_VISIBILITY",
        ":visible_at', now + timeout, id)",
        ":visible_at', before + timeout, id)",
        test_change_visibility_counts_from_the_call_and_for_this_delivery_only,
    ),
    "too late is not noticed": (
        "CHANGE_VISIBILITY",
        "before <= now",
        "false",
        test_change_visibility_is_refused_when_there_is_no_timeout_to_change,
    ),
    "a delivery may be hidden for ever": (
        "CHANGE_VISIBILITY",
        "+ longest then",
        "+ 2 * longest then",
        test_a_delivery_is_hidden_for_twelve_hours_at_most,
    ),
    "what somebody looks at is sent again": (
        "REDRIVE",
        "'-inf', ARGV[1]",
        "'-inf', '+inf'",
        test_what_is_received_too_often_becomes_a_dead_letter_and_can_be_sent_again,
    ),
    "messages are kept for ever": ("RECEIVE", "<= now then", "< 0 then", test_a_message_past_its_retention_is_dropped),
    "a delayed message looks in flight": ("ATTRIBUTES", "== '0'", "== ''", test_the_attributes_are_what_metrics_need),
    "an empty receive counts itself": (
        "RECEIVE",
        "local given = {}",
        "local given = {}\nredis.call('HINCRBY', queue, 'looks', 1)",
        test_finding_nothing_changes_nothing,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_tests_notice_when(mutant, monkeypatch, clock):
    script, old, new, test = MUTANTS[mutant]
    text = getattr(visibility_scripts, script)
    assert text.count(old) == 1
    monkeypatch.setattr(visibility_scripts, script, text.replace(old, new))
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    given = {"client": client, "name": "jobs", "clock": clock}
    needs = inspect.signature(test).parameters
    if "queue" in needs:
        given["queue"] = VisibilityQueue.create(client, "jobs", max_receive_count=3)
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        test(**{name: given[name] for name in needs})
