"""The taught idempotency parts without the lab: on sqlite3 itself, over either paramstyle, and pasted elsewhere."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import fakeredis
import pytest

from labkit import idempotency
from labkit.idempotency import (
    JOB,
    Claimed,
    ClaimLost,
    Done,
    GuardedStatusStore,
    IdempotencyRecords,
    InProgress,
    Outbox,
    OutboxEvent,
    OverwritingStatusStore,
    ProcessedEvents,
    RedisStatusStore,
    Relay,
    SqlStatusStore,
    StateMachine,
    StatusCache,
    TransitionRefused,
    UnknownId,
    effect_key,
    table,
    transaction,
)

TTL = LEASE = 30
DAY = 86_400
KEY, STOCK_KEY = effect_key("order-1", "charge"), effect_key("order-1", "deduct-stock")

# ---- one process, on sqlite3 itself


class FormatCursor:
    """A cursor of a driver whose parameters are marked `%s`, as PostgreSQL's are; with PostgreSQL's `IN`."""

    def __init__(self, connection):
        self.connection, self.cursor = connection, connection.wrapped.cursor()

    def execute(self, text, values):
        assert "?" not in text
        assert "IN ()" not in text
        self.connection.in_transaction = True  # reading begins one too
        self.cursor.execute(text.replace("%s", "?"), values)

    def __getattr__(self, name):
        return getattr(self.cursor, name)


class FormatConnection:
    """A connection that has what the DB-API asks for, and no more."""

    def __init__(self, connection):
        self.wrapped, self.in_transaction = connection, False

    def cursor(self):
        return FormatCursor(self)

    def commit(self):
        self.wrapped.commit()
        self.in_transaction = False

    def rollback(self):
        self.wrapped.rollback()
        self.in_transaction = False


@pytest.fixture(params=["?", "%s"])
def make(request):
    """Makes a table in a new database, of a kind, over a driver that marks parameters in one way or the other."""
    connection = sqlite3.connect(":memory:")
    used = connection if request.param == "?" else FormatConnection(connection)

    def make(kind, **options):
        table = kind(used, request.param, **options)
        with transaction(used):
            table.create()
            table.create()  # it is there: nothing happens
        return table

    return make


def test_a_key_is_claimed_once_until_it_is_purged(make):
    events = make(ProcessedEvents, horizon=DAY)
    assert [events.claim(KEY, now=0), events.claim(KEY, now=1), events.claim(STOCK_KEY, now=1)] == [True, False, True]
    assert events.purge(DAY, now=DAY) == 1
    assert [events.claim(KEY, now=2), events.claim(STOCK_KEY, now=2)] == [True, False]


def test_a_key_that_may_still_be_needed_is_not_purged(make):
    with pytest.raises(ValueError, match=r"older_than is 86400 s, but messages may come again for 1\.2096e\+06 s"):
        make(ProcessedEvents).purge(DAY)


def test_a_record_is_claimed_then_busy_then_taken_over_then_done(make):
    records = make(IdempotencyRecords)
    assert records.claim(KEY, "a", LEASE, now=100) == Claimed(until=130)
    assert records.claim(KEY, "b", LEASE, now=129.999) == InProgress(until=130)
    assert records.deadlines() == {KEY: 130}
    assert records.claim(KEY, "b", LEASE, now=130) == Claimed(until=160)
    with pytest.raises(ClaimLost, match="'order-1:charge' cannot be completed by 'a': it was taken over"):
        records.complete(KEY, "a", "charged by a")
    assert records.release(KEY, "a") is False
    records.complete(KEY, "b", {"charge": [1, None]})
    assert records.claim(KEY, "c", LEASE, now=1_000) == Done({"charge": [1, None]})
    assert records.release(KEY, "b") is False
    with pytest.raises(ClaimLost):
        records.complete(KEY, "b")
    assert records.deadlines() == {}


def test_a_record_that_is_released_is_claimed_at_once(make):
    records = make(IdempotencyRecords)
    records.claim(KEY, "a", LEASE, now=0)
    assert records.release(KEY, "a") is True
    assert records.claim(KEY, "b", LEASE, now=0) == Claimed(until=LEASE)


def test_records_and_the_claims_of_dead_owners_are_purged_when_their_lease_ended_before_the_horizon(make):
    records = make(IdempotencyRecords, horizon=DAY)
    records.claim(KEY, "a", LEASE, now=0)
    records.claim(STOCK_KEY, "a", LEASE, now=0)
    records.complete(KEY, "a")
    records.claim("order-2:charge", "a", LEASE, now=1)
    assert records.purge(DAY, now=LEASE + DAY - 1) == 0
    assert records.purge(DAY, now=LEASE + DAY) == 2
    assert isinstance(records.claim(KEY, "b", LEASE, now=2), Claimed)
    assert isinstance(records.claim(STOCK_KEY, "b", LEASE, now=2), Claimed)
    assert isinstance(records.claim("order-2:charge", "b", LEASE, now=2), InProgress)


@pytest.mark.parametrize("options", [{"isolation_level": None}, {"autocommit": True}], ids=str)
def test_a_connection_in_autocommit_mode_is_refused(options):
    if "autocommit" in options and sys.version_info < (3, 12):
        pytest.skip("sqlite3 has no autocommit before Python 3.12")
    connection = sqlite3.connect(":memory:", **options)
    with pytest.raises(ValueError, match="connection is in autocommit mode, where nothing can be rolled back"):
        ProcessedEvents(connection)
    with pytest.raises(ValueError, match="connection is in autocommit mode"), transaction(connection):
        raise AssertionError("the block is not entered")
    with pytest.raises(ValueError, match="connection is in autocommit mode"):
        Outbox(SimpleNamespace(autocommit=True), placeholder="%s")  # as psycopg and pg8000 say it
    Outbox(SimpleNamespace(autocommit=False, isolation_level=None), placeholder="%s")  # psycopg: the server's own level


def test_in_autocommit_mode_a_claim_would_stay_although_its_transaction_raised(monkeypatch):
    monkeypatch.setattr(table, "refuse_autocommit", lambda connection: None)  # a mutant
    connection = sqlite3.connect(":memory:", isolation_level=None)
    events = ProcessedEvents(connection)
    events.create()
    with pytest.raises(ZeroDivisionError), transaction(connection):
        _ = events.claim(KEY) / 0
    assert events.claim(KEY) is False


def test_the_outbox_gives_what_is_not_published_oldest_first(make):
    outbox = make(Outbox)
    assert [outbox.add("e2", {"n": 2}, now=2), outbox.add("e1", now=1), outbox.add("e1", "again", now=3)] == [1, 1, 0]
    assert outbox.pending() == [OutboxEvent("e1", None), OutboxEvent("e2", {"n": 2})]
    assert outbox.pending(limit=1) == [OutboxEvent("e1", None)]
    outbox.mark_published("e1", now=10)
    assert outbox.pending() == [OutboxEvent("e2", {"n": 2})]
    assert [outbox.purge(5, now=14), outbox.purge(5, now=15), outbox.purge(5, now=15)] == [0, 1, 0]


def test_an_event_that_cannot_be_published_stays(make):
    outbox, sent = make(Outbox), []
    for event_id in ("e1", "e2"):
        outbox.add(event_id)
    outbox.connection.commit()

    def publish(event):
        if event.id == "e2" and len(sent) < 2:
            sent.append("refused")
            raise ConnectionError("the bus is down")
        sent.append(event.id)

    with pytest.raises(ConnectionError):
        Relay(outbox, publish).run_once()
    assert Relay(outbox, publish).run_once() == 1
    assert Relay(outbox, publish).run_once() == 0
    assert sent == ["e1", "refused", "e2"]


def test_nothing_is_published_inside_a_transaction(make):
    outbox, inside = make(Outbox), []
    with transaction(outbox.connection):
        outbox.add("e1")
        outbox.add("e2")
    Relay(outbox, lambda event: inside.append(outbox.connection.in_transaction)).run_once()
    assert inside == [False, False]


def claim_and_raise(events, error):
    with transaction(events.connection):
        assert events.claim(KEY)
        raise error


def test_a_transaction_is_undone_when_its_block_raises(make):
    events = make(ProcessedEvents)
    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            claim_and_raise(events, error)
    with transaction(events.connection):
        assert events.claim(KEY)
    events.connection.rollback()
    assert not events.claim(KEY)


@pytest.fixture(params=[SqlStatusStore, RedisStatusStore, "decoded"])
def statuses(request, make):
    if request.param is SqlStatusStore:
        return make(SqlStatusStore)
    return RedisStatusStore(fakeredis.FakeRedis(decode_responses=request.param == "decoded"))


def test_a_status_moves_along_its_machine_and_is_told_twice_only_once(statuses):
    assert [statuses.begin("1", "pending"), statuses.begin("1", "pending"), statuses.get("1")] == [
        True,
        False,
        "pending",
    ]
    assert [statuses.compare_and_set("1", "in-progress"), statuses.compare_and_set("1", "in-progress")] == [True, False]
    assert [statuses.compare_and_set("1", "completed"), statuses.compare_and_set("1", "completed")] == [True, False]
    for late in ("in-progress", "failed", "pending"):
        with pytest.raises(TransitionRefused, match=f"'1' is 'completed', and that never becomes '{late}'") as caught:
            statuses.compare_and_set("1", late)
        assert (caught.value.id, caught.value.present, caught.value.wanted) == ("1", "completed", late)
    assert statuses.get("1") == "completed"


def test_what_has_no_status_gets_none_by_the_way(statuses):
    with pytest.raises(UnknownId, match="'1' has no status"):
        statuses.compare_and_set("1", "completed")
    assert statuses.get("1") is None


def test_what_is_no_status_is_refused(statuses):
    with pytest.raises(ValueError, match="'complete' is no status; there are completed, failed, in-progress, pending"):
        statuses.begin("1", "complete")
    with pytest.raises(ValueError, match="'complete' is no status"):
        statuses.compare_and_set("1", "complete")


def test_a_status_that_nothing_leads_to_is_only_begun_with(statuses):
    statuses.machine = StateMachine((("new", "old"),))
    statuses.begin("1", "old")
    with pytest.raises(TransitionRefused):
        statuses.compare_and_set("1", "new")


def test_a_status_keeps_the_ttl_of_its_key_and_the_naive_ones_drop_it():
    client = fakeredis.FakeRedis()
    for kind, kept in ((RedisStatusStore, True), (OverwritingStatusStore, False), (GuardedStatusStore, False)):
        client.set("job_status:1", "in-progress", ex=TTL)
        kind(client).compare_and_set("1", "completed")
        assert (client.ttl("job_status:1") > 0) == kept


def test_the_states_of_a_machine():
    assert JOB.terminal == {"completed", "failed"}
    assert JOB.before("pending") == JOB.before("completed") == ("in-progress",)
    for edges in ((), (("a", "a"),), (("", "a"),), (("a", None),)):
        with pytest.raises(ValueError, match=r"edge|a status is a text"):
            StateMachine(edges)


@pytest.mark.parametrize("decode", [False, True])
def test_the_cache_asks_the_database_once_and_again_after_a_write(decode):
    asked = []
    cache = StatusCache(fakeredis.FakeRedis(decode_responses=decode), lambda id: asked.append(id) or "in-progress")
    assert [cache.get("1"), cache.get("1"), asked] == ["in-progress", "in-progress", ["1"]]
    assert 0 < cache.redis.ttl("status_cache:1") <= 60
    cache.forget("1")
    assert [cache.get("1"), asked] == ["in-progress", ["1", "1"]]


def test_what_has_no_status_is_not_cached():
    found = [None, "pending"]
    cache = StatusCache(fakeredis.FakeRedis(), lambda id: found.pop(0))
    assert cache.get("1") is None
    assert cache.get("1") == "pending"


def test_without_redis_the_cache_is_the_database(caplog):
    server = fakeredis.FakeServer()
    cache = StatusCache(fakeredis.FakeRedis(server=server), lambda id: "completed")
    server.connected = False
    assert cache.get("1") == "completed"
    cache.forget("1")
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "Without the cache, a status may be 60000 ms old"
    ] * 2


def test_a_copy_that_cannot_be_filled_in_is_not_missed():
    server = fakeredis.FakeServer()

    def read(id):
        server.connected = False
        return "completed"

    assert StatusCache(fakeredis.FakeRedis(server=server), read).get("1") == "completed"


# ---- what makes no sense


@pytest.mark.parametrize("key", ["", "  ", None, 7, b"order-1", "x" * 256])
def test_what_is_no_key_is_refused(make, key):
    calls = [
        lambda: make(ProcessedEvents).claim(key),
        lambda: make(IdempotencyRecords).claim(key, "a", LEASE),
        lambda: make(IdempotencyRecords).claim(KEY, key, LEASE),
        lambda: make(IdempotencyRecords).complete(key, "a"),
        lambda: make(IdempotencyRecords).release(key, "a"),
        lambda: make(Outbox).add(key),
        lambda: make(Outbox).mark_published(key),
        lambda: make(SqlStatusStore).begin(key, "pending"),
        lambda: make(SqlStatusStore).compare_and_set(key, "completed"),
        lambda: RedisStatusStore(fakeredis.FakeRedis()).compare_and_set(key, "completed"),
        lambda: StatusCache(fakeredis.FakeRedis(), str).get(key),
        lambda: effect_key(key, "charge"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is a text of 1 to 255 characters, not "):
            call()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "30", None])
def test_what_is_no_duration_is_refused(make, seconds):
    calls = [
        lambda: make(IdempotencyRecords).claim(KEY, "a", seconds),
        lambda: make(IdempotencyRecords, horizon=seconds),
        lambda: make(ProcessedEvents).purge(seconds),
        lambda: make(Outbox).purge(seconds),
        lambda: StatusCache(fakeredis.FakeRedis(), str, ttl=seconds),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"is a number of seconds, 0\.001 or more, not "):
            call()


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), object()])
def test_what_json_cannot_say_is_refused_and_changes_nothing(make, value):
    records, outbox = make(IdempotencyRecords), make(Outbox)
    records.claim(KEY, "a", LEASE, now=0)
    with pytest.raises(ValueError, match="the result of 'order-1:charge' must be something that JSON can say, not "):
        records.complete(KEY, "a", value)
    with pytest.raises(ValueError, match="the payload of 'e1' must be something that JSON can say, not "):
        outbox.add("e1", value)
    assert isinstance(records.claim(KEY, "b", LEASE, now=0), InProgress)
    assert outbox.pending() == []


def test_other_arguments_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match=r"placeholder is \? or %s, not ':1'"):
        ProcessedEvents(None, ":1")
    with pytest.raises(ValueError, match="now is a number of seconds, 0 or more, not -1"):
        make(ProcessedEvents).claim(KEY, now=-1)
    for limit in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="limit is a number of events, 1 or more"):
            make(Outbox).pending(limit)
    for action in ("", "de duct", "a:b", None):
        with pytest.raises(ValueError, match="action is made of letters"):
            effect_key("order-1", action)


def test_no_two_effects_have_one_key():
    parts = [(order, action) for order in ("1", "1:a", "1:a:b", ":") for action in ("a", "b", "a.b")]
    assert len({effect_key(*part) for part in parts}) == len(parts)
    assert effect_key("order-1", "charge") == "order-1:charge"


# ---- in somebody's production code

PASTED = """
import sys
sys.modules["labkit"] = None  # importing it fails
import sqlite3
from our_records import IdempotencyRecords, transaction
db = sqlite3.connect(":memory:")
records = IdempotencyRecords(db)
with transaction(db):
    records.create()
    print(type(records.claim("key", "owner", 30)).__name__)
"""


def test_the_folder_works_under_another_name_and_without_the_lab(tmp_path):
    shutil.copytree(Path(idempotency.__file__).parent, tmp_path / "our_records")
    done = subprocess.run([sys.executable, "-c", PASTED], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["Claimed"], done.stderr
