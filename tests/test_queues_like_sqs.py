"""The same calls to `VisibilityQueue` and to moto's SQS: the same answers, but for the differences listed below.

moto imitates Amazon SQS and is itself no SQS; where it departs from what Amazon documents, or from what was seen at
Amazon, the table says so.
"""

import json

import fakeredis
import pytest

from labkit.queues import QueueError, VisibilityQueue, stored_queue

WHY = "is not installed: there is no SQS to compare with (`pip install 'moto[sqs]'`)"
moto = pytest.importorskip("moto", reason=f"moto {WHY}")
boto3 = pytest.importorskip("boto3", reason=f"boto3 {WHY}")


class Clock:
    """One time for both queues."""

    def __init__(self):
        self.now = 1_767_258_000.0

    def time(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


class Ours:
    """`VisibilityQueue`. The rule `delete` for old receipts is moto's."""

    def __init__(self, old_receipts):
        self.old_receipts = old_receipts
        self.client = fakeredis.FakeRedis(server=fakeredis.FakeServer())

    def create(self, name="jobs", **attributes):
        VisibilityQueue.create(self.client, name, old_receipts=self.old_receipts, **attributes)

    def send(self, body, delay=0, name="jobs"):
        VisibilityQueue(self.client, name).send(body, delay)

    def receive(self, name="jobs", **options):
        messages = VisibilityQueue(self.client, name).receive(**options)
        return [(message.body, message.receive_count, message.receipt_handle, message.id) for message in messages]

    def delete(self, handle, name="jobs"):
        VisibilityQueue(self.client, name).delete(handle)

    def change_visibility(self, handle, seconds, name="jobs"):
        VisibilityQueue(self.client, name).change_visibility(handle, seconds)

    def counts(self, name="jobs"):
        now = VisibilityQueue(self.client, name).attributes()
        return now.visible, now.in_flight, now.delayed


class Sqs:
    """moto's SQS through boto3."""

    def __init__(self, client):
        self.client = client
        for url in client.list_queues().get("QueueUrls", []):
            client.delete_queue(QueueUrl=url)

    def create(self, name="jobs", visibility_timeout=30, retention=345_600, max_receive_count=None):
        attributes = {"VisibilityTimeout": visibility_timeout, "MessageRetentionPeriod": retention}
        if max_receive_count is not None:
            dead = self.client.create_queue(QueueName=f"{name}-dead-letters")["QueueUrl"]
            arn = self.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            policy = {"deadLetterTargetArn": arn, "maxReceiveCount": max_receive_count}
            attributes["RedrivePolicy"] = json.dumps(policy)
        self.client.create_queue(QueueName=name, Attributes={key: str(value) for key, value in attributes.items()})

    def url(self, name):
        return f"https://sqs.eu-west-1.amazonaws.com/123456789012/{name}"

    def send(self, body, delay=0, name="jobs"):
        self.client.send_message(QueueUrl=self.url(name), MessageBody=json.dumps(body), DelaySeconds=delay)

    def receive(self, name="jobs", max_messages=1, wait=0, visibility_timeout=None):
        options = {} if visibility_timeout is None else {"VisibilityTimeout": visibility_timeout}
        answer = self.client.receive_message(
            QueueUrl=self.url(name),
            MaxNumberOfMessages=max_messages,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
            **options,
        )
        return [
            (
                json.loads(message["Body"]),
                int(message["Attributes"]["ApproximateReceiveCount"]),
                message["ReceiptHandle"],
                message["MessageId"],
            )
            for message in answer.get("Messages", [])
        ]

    def delete(self, handle, name="jobs"):
        self.client.delete_message(QueueUrl=self.url(name), ReceiptHandle=handle)

    def change_visibility(self, handle, seconds, name="jobs"):
        self.client.change_message_visibility(QueueUrl=self.url(name), ReceiptHandle=handle, VisibilityTimeout=seconds)

    def counts(self, name="jobs"):
        answer = self.client.get_queue_attributes(QueueUrl=self.url(name), AttributeNames=["All"])["Attributes"]
        kinds = ("", "NotVisible", "Delayed")
        return tuple(int(answer[f"ApproximateNumberOfMessages{kind}"]) for kind in kinds)


# ---- the calls; each gives what it saw


def seen(messages):
    """What two queues can be compared by: bodies and receive counts."""
    return [(body, count) for body, count, *_ in messages]


def error(call, *arguments, **options):
    """The name of the error that a call ends with, or `done`."""
    try:
        call(*arguments, **options)
    except ValueError:
        return "a value out of range"
    except QueueError as refused:
        return type(refused).__name__
    except Exception as refused:
        return NAMES.get(refused.response["Error"]["Code"], refused.response["Error"]["Code"])
    return "done"


NAMES = {
    "AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist",
    "QueueAlreadyExists": "QueueNameExists",
    "InvalidParameterValue": "a value out of range",
    "AWS.SimpleQueueService.ReadCountOutOfRange": "a value out of range",
    "ReadCountOutOfRange": "a value out of range",
    "AWS.SimpleQueueService.MessageNotInflight": "MessageNotInflight",
}


def handle_of(queue, **options):
    return queue.receive(**options)[0][2]


def a_message_is_received_once_and_counted(queue, clock):
    queue.create()
    queue.send({"order": 1})
    return seen(queue.receive()), seen(queue.receive())


def messages_come_in_batches(queue, clock):
    queue.create()
    for number in range(12):
        queue.send(number)
    return [len(queue.receive(max_messages=10)) for _ in range(3)]


def a_timeout_that_is_over_means_redelivery(queue, clock):
    queue.create()
    queue.send("job")
    first = queue.receive()
    clock.pass_(29)
    during = queue.receive()
    clock.pass_(2)
    after = queue.receive()
    return seen(first), seen(during), seen(after), first[0][2] == after[0][2], first[0][3] == after[0][3]


def a_receive_may_choose_its_timeout(queue, clock):
    queue.create()
    queue.send("job")
    queue.receive(visibility_timeout=5)
    clock.pass_(6)
    return seen(queue.receive())


def a_timeout_may_be_zero(queue, clock):
    queue.create()
    queue.send("job")
    queue.receive(visibility_timeout=0)
    clock.pass_(0.001)
    return seen(queue.receive())


def a_delay_hides_a_message_at_first(queue, clock):
    queue.create()
    queue.send("later", delay=10)
    before = seen(queue.receive()), queue.counts()
    clock.pass_(11)
    return before, seen(queue.receive()), queue.counts()


def the_counts_say_where_messages_are(queue, clock):
    queue.create()
    for number in range(3):
        queue.send(number)
    queue.send("later", delay=60)
    handle = handle_of(queue)
    queue.receive()
    before = queue.counts()
    queue.delete(handle)
    return before, queue.counts()


def a_deleted_message_is_gone_and_may_be_deleted_again(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    answers = error(queue.delete, handle), error(queue.delete, handle)
    clock.pass_(60)
    return answers, seen(queue.receive())


def a_receipt_deletes_after_its_timeout(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    clock.pass_(31)
    return error(queue.delete, handle), seen(queue.receive())


def an_old_receipt_deletes(queue, clock):
    queue.create()
    queue.send("job")
    old = handle_of(queue)
    clock.pass_(31)
    queue.receive()
    answer = error(queue.delete, old)
    return answer, queue.counts()


def an_old_receipt_gives_somebody_elses_message_back(queue, clock):
    queue.create()
    queue.send("job")
    old = handle_of(queue)
    clock.pass_(31)
    queue.receive()
    answer = error(queue.change_visibility, old, 0)
    clock.pass_(0.001)
    return answer, seen(queue.receive())


def more_time_counts_from_the_call(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    clock.pass_(20)
    queue.change_visibility(handle, 60)
    clock.pass_(50)
    during = queue.receive()
    clock.pass_(11)
    return seen(during), seen(queue.receive())


def more_time_is_not_remembered(queue, clock):
    queue.create()
    queue.send("job")
    queue.change_visibility(handle_of(queue), 60)
    clock.pass_(61)
    queue.receive()
    clock.pass_(31)
    return seen(queue.receive())


def a_message_can_be_given_back(queue, clock):
    queue.create()
    queue.send("job")
    queue.change_visibility(handle_of(queue), 0)
    clock.pass_(0.001)
    return seen(queue.receive())


def twelve_hours_are_the_end(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    clock.pass_(10)
    return error(queue.change_visibility, handle, 43_200), error(queue.change_visibility, handle, 43_000)


def twelve_hours_begin_with_the_receive(queue, clock):
    queue.create()
    queue.send("job")
    clock.pass_(3_600)
    return error(queue.change_visibility, handle_of(queue), 43_000)


def garbage_is_no_receipt(queue, clock):
    queue.create()
    queue.send("job")
    queue.receive()
    return error(queue.delete, "garbage"), error(queue.change_visibility, "garbage", 10)


def a_receipt_belongs_to_its_queue(queue, clock):
    queue.create()
    queue.create("others")
    queue.send("job")
    handle = handle_of(queue)
    return error(queue.delete, handle, name="others"), queue.counts()


def what_is_received_too_often_is_a_dead_letter(queue, clock):
    queue.create(max_receive_count=2)
    queue.send("poison")
    found = []
    for _ in range(3):
        found.append(seen(queue.receive()))
        clock.pass_(31)
    return found, queue.counts(), seen(queue.receive(name="jobs-dead-letters"))


def a_dead_letter_does_not_hold_up_the_next_message(queue, clock):
    queue.create(max_receive_count=1)
    queue.send("poison")
    queue.receive()
    clock.pass_(31)
    queue.send("good")
    return seen(queue.receive()), queue.counts(name="jobs-dead-letters")


def a_dead_letter_keeps_its_id(queue, clock):
    queue.create(max_receive_count=1)
    queue.send("poison")
    (message,) = queue.receive()
    clock.pass_(31)
    queue.receive()
    (letter,) = queue.receive(name="jobs-dead-letters")
    return letter[3] == message[3]


def a_message_becomes_a_dead_letter_while_it_is_worked_on(queue, clock):
    queue.create(max_receive_count=1)
    queue.send("job")
    handle = handle_of(queue)
    clock.pass_(31)
    queue.receive()
    return error(queue.delete, handle), queue.counts(name="jobs-dead-letters")


def a_message_past_its_retention_is_dropped(queue, clock):
    queue.create(retention=60)
    queue.send("old")
    clock.pass_(61)
    return seen(queue.receive())


def a_timeout_is_over_when_it_is(queue, clock):
    queue.create()
    queue.send("job")
    queue.receive()
    clock.pass_(30)
    at_the_moment = queue.receive()
    clock.pass_(0.001)
    return seen(at_the_moment), len(queue.receive())


def time_cannot_be_changed_once_it_is_over(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    clock.pass_(31)
    return error(queue.change_visibility, handle, 60)


def time_cannot_be_changed_for_what_is_deleted(queue, clock):
    queue.create()
    queue.send("job")
    handle = handle_of(queue)
    queue.delete(handle)
    return error(queue.change_visibility, handle, 60)


def nobody_created_the_queue(queue, clock):
    return (
        error(queue.send, "job", name="nowhere"),
        error(queue.receive, name="nowhere"),
        error(queue.counts, name="nowhere"),
    )


def a_queue_is_created_twice(queue, clock):
    queue.create(visibility_timeout=30)
    return error(queue.create, visibility_timeout=30), error(queue.create, visibility_timeout=60)


def values_are_out_of_range(queue, clock):
    queue.create()
    queue.send("job")
    return (
        error(queue.receive, max_messages=11),
        error(queue.receive, max_messages=0),
        error(queue.receive, wait=21),
        error(queue.send, "job", delay=901),
        error(queue.change_visibility, handle_of(queue), 43_201),
    )


def a_body_is_too_large(queue, clock):
    queue.create()
    return error(queue.send, "x" * 1_048_576), error(queue.send, "x" * 1_000_000)


ALIKE = [
    a_message_is_received_once_and_counted,
    messages_come_in_batches,
    a_timeout_that_is_over_means_redelivery,
    a_receive_may_choose_its_timeout,
    a_timeout_may_be_zero,
    a_delay_hides_a_message_at_first,
    the_counts_say_where_messages_are,
    a_deleted_message_is_gone_and_may_be_deleted_again,
    a_receipt_deletes_after_its_timeout,
    an_old_receipt_deletes,
    an_old_receipt_gives_somebody_elses_message_back,
    more_time_counts_from_the_call,
    more_time_is_not_remembered,
    a_message_can_be_given_back,
    twelve_hours_are_the_end,
    garbage_is_no_receipt,
    a_receipt_belongs_to_its_queue,
    what_is_received_too_often_is_a_dead_letter,
    a_dead_letter_does_not_hold_up_the_next_message,
    a_dead_letter_keeps_its_id,
    a_message_past_its_retention_is_dropped,
    nobody_created_the_queue,
    a_queue_is_created_twice,
    values_are_out_of_range,
    a_body_is_too_large,
]


# The only differences: the case, our rule for old receipts, our answer, moto's answer, and why.
# (`redrive` has no row: moto has no StartMessageMoveTask to compare it with.)
DIFFERENCES = [
    (
        *(an_old_receipt_deletes, "ignore", ("done", (0, 1, 0)), ("done", (0, 0, 0))),
        "Amazon: the call succeeds, but the message might not be deleted. Our rule `ignore` never does, moto always.",
    ),
    (
        *(an_old_receipt_deletes, "error", ("ReceiptHandleHasExpired", (0, 1, 0)), ("done", (0, 0, 0))),
        "Our rule `error` is ElasticMQ's. Amazon refuses in FIFO queues only, and moto in none.",
    ),
    (
        *(an_old_receipt_gives_somebody_elses_message_back, "ignore", ("done", []), ("done", [("job", 3)])),
        "Amazon and moto let an old receipt change the current delivery. Our rule `ignore` lets it do nothing at all.",
    ),
    (
        *(an_old_receipt_gives_somebody_elses_message_back, "error"),
        *(("ReceiptHandleHasExpired", []), ("done", [("job", 3)])),
        "As above; our rule `error` says so.",
    ),
    (
        *(a_message_becomes_a_dead_letter_while_it_is_worked_on, "delete"),
        *(("done", (1, 0, 0)), ("ReceiptHandleIsInvalid", (1, 0, 0))),
        "To us the message is gone from its queue, and to delete what is gone succeeds; moto forgets the receipt.",
    ),
    (
        *(a_timeout_is_over_when_it_is, "delete", ([("job", 2)], 0), ([], 1)),
        "We give a message at the millisecond at which its timeout is over, moto one later; Amazon promises neither.",
    ),
    (
        *(twelve_hours_begin_with_the_receive, "delete", "done", "a value out of range"),
        "Amazon counts the 12 hours from the receive, as we do; moto counts them from the send.",
    ),
    (
        *(time_cannot_be_changed_once_it_is_over, "delete", "MessageNotInflight", "done"),
        "Amazon's API names this error; moto hides the visible message again.",
    ),
    (
        *(time_cannot_be_changed_for_what_is_deleted, "delete", "MessageNotInflight", "ReceiptHandleIsInvalid"),
        "Both refuse; we say what is wrong with the message, moto what is wrong with the receipt.",
    ),
]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stored_queue, "time", clock)
    monkeypatch.setattr("moto.sqs.models.unix_time", clock.time)
    monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: clock.now * 1_000)
    return clock


@pytest.fixture(scope="module")
def sqs():
    """A client of moto's SQS, which lives in this process."""
    options = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "region_name": "eu-west-1"}
    with moto.mock_aws():
        yield boto3.client("sqs", **options)


@pytest.fixture
def both(sqs, clock):
    """Gives what we answer to a case's calls, and what moto does."""

    def ask(case, old_receipts):
        ours = case(Ours(old_receipts), clock)
        clock.now = Clock().now
        return ours, case(Sqs(sqs), clock)

    return ask


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.__name__)
def test_both_answer_alike(case, both):
    ours, theirs = both(case, "delete")
    assert ours == theirs


@pytest.mark.parametrize(("case", "old_receipts", "ours", "theirs", "why"), DIFFERENCES)
def test_both_differ_exactly_as_the_table_says(case, old_receipts, ours, theirs, why, both):
    assert ours != theirs, why
    assert both(case, old_receipts) == (ours, theirs), why


def test_no_case_is_left_out():
    named = {name for name, value in globals().items() if getattr(value, "__code__", None) and name[0] != "_"}
    cases = {name for name in named if globals()[name].__code__.co_varnames[:2] == ("queue", "clock")}
    assert cases == {case.__name__ for case in [*ALIKE, *(row[0] for row in DIFFERENCES)]}
