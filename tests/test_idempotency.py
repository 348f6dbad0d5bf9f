"""The taught idempotency parts: what each guarantees, what not, and the schedules that their docstrings name."""

import re

import pytest

from labkit import explore, replay
from labkit.idempotency import (
    DeleteOnWriteCache,
    Done,
    GuardedStatusStore,
    IdempotencyRecords,
    InProgress,
    MarkFirstRelay,
    Outbox,
    OverwritingStatusStore,
    ProcessedEvents,
    RedisStatusStore,
    Relay,
    SqlStatusStore,
    StatusCache,
    WriteThroughCache,
)
from tests.docstrings import shown
from tests.idempotency_scenarios import (
    ALONE,
    ANY,
    DAY,
    FRESH,
    KEPT,
    LATEST,
    ONCE,
    STAYS,
    TOLD,
    TTL,
    AnybodyCompletes,
    AnybodyReleases,
    Forgetful,
    Impatient,
    LooksFirst,
    Tolerant,
    a_key_for_each,
    cached,
    cached_for,
    claim_then,
    completion,
    consumed,
    forget_before_the_commit,
    forget_only_when_sure,
    guarded_status_then_publish,
    guarded_under_a_lock,
    key_first,
    key_then_lock,
    late_release,
    late_status,
    lock_then_key,
    message,
    one_key_for_both,
    pay,
    pay_under_the_lock,
    payment_inside,
    payment_inside_with_its_key,
    payment_then_status,
    purged,
    redis_status_then_publish,
    relayed,
    sell_for_each,
    sell_inside,
    sell_once_for_each,
    sql_status_then_publish,
    status_with_outbox,
    stock_inside,
    two_complete,
    two_effects,
)

# ---- the schedules in the docstrings

# By class: for each schedule in its docstring, the budgets that it needs, and what it breaks.
SHOWN = {
    ProcessedEvents: [({"crashes": 1}, KEPT), ({"crashes": 1}, ONCE), ({}, ONCE)],
    IdempotencyRecords: [({"pauses": 1}, ONCE)],
    Outbox: [({"crashes": 1}, TOLD)],
    Relay: [({"crashes": 1}, ONCE)],
    MarkFirstRelay: [({"crashes": 1}, TOLD)],
    SqlStatusStore: [({}, LATEST)],
    RedisStatusStore: [({"crashes": 1}, TOLD)],
    OverwritingStatusStore: [({}, STAYS)],
    GuardedStatusStore: [({}, STAYS)],
    StatusCache: [({"crashes": 1}, FRESH)],
    DeleteOnWriteCache: [({}, FRESH)],
    WriteThroughCache: [({}, FRESH)],
}
CASES = [(kind, number) for kind, cases in SHOWN.items() for number in range(len(cases))]


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_the_schedule_in_the_docstring_is_the_shortest_that_breaks_the_property(kind, number):
    budgets, name = SHOWN[kind][number]
    told = shown(kind)[number]
    assert name in [violation.property for violation in replay(told.scenario, told.schedule).violations]
    assert str(explore(told.scenario, **budgets).violations[name].schedule) == told.schedule


@pytest.mark.parametrize("kind", [ProcessedEvents, IdempotencyRecords, Outbox, RedisStatusStore, StatusCache])
def test_what_the_docstring_says_to_hold_holds_in_its_schedule(kind):
    (told,) = shown(kind, "Holds")
    trace = replay(told.scenario, told.schedule)
    assert trace.over
    assert trace.violation is None


@pytest.mark.parametrize("kind", SHOWN)
def test_every_class_says_what_it_guarantees_what_not_and_which_schedule_shows_it(kind):
    assert re.search(r"^    Guarantees: .*^    Does not: .*^    Shown by ", kind.__doc__, re.MULTILINE | re.DOTALL)
    assert len(shown(kind)) == len(SHOWN[kind])


@pytest.mark.parametrize("kind", [RedisStatusStore, OverwritingStatusStore, GuardedStatusStore, StatusCache])
def test_the_schedule_in_the_docstring_has_the_same_replies_on_a_real_server(kind, redis_url):
    (told,) = shown(kind)
    trace = replay(told.scenario, told.schedule, redis_url=redis_url)
    assert trace == replay(told.scenario, told.schedule)
    assert trace.comparison.compared > 0


# ---- the flaws of two articles, found by the explorer

# By flaw: a scenario, its budgets, what breaks, and how long the shortest trace known from elsewhere is. There, a
# statement and its commit count as one; that A has received its message, which is no step here, counts as one too.
FLAWS = {
    "the lock's lease ends between look and write": (two_complete(guarded_under_a_lock), {"pauses": 1}, ONCE, 9),
    "the status is written before its event": (completion(sql_status_then_publish), {"crashes": 1}, TOLD, 5),
    "the same with no crash": (completion(sql_status_then_publish), {"lost_replies": 1}, TOLD, 7),
    "only the status is guarded": (message(payment_then_status), {"crashes": 1}, ONCE, 13),
    "the status is in Redis only": (two_complete(guarded_status_then_publish, evicted=True), {}, ONCE, 10),
    "a reader puts the old status back": (cached(WriteThroughCache), {}, FRESH, 5),
    "a late status undoes a terminal one": (late_status(OverwritingStatusStore), {}, STAYS, 3),
    "the key is committed before the effect": (message(key_first), {"crashes": 1}, KEPT, 7),
    "the effect is in the key's transaction": (message(payment_inside), {"crashes": 1}, ONCE, 7),
    "a record is no key at the service": (message(claim_then(pay)), {"pauses": 1}, ONCE, 7),
    "the key is taken before the lock": (message(key_then_lock, lock=True), {}, KEPT, 13),
    "two effects have one key": (two_effects(one_key_for_both), {"crashes": 1}, KEPT, 11),
    "an old owner releases its successor's claim": (late_release(AnybodyReleases), {"pauses": 1}, ALONE, 6),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found_in_a_trace_as_short_as_known(flaw):
    scenario, budgets, name, longest = FLAWS[flaw]
    trace = explore(scenario, **budgets).violations[name]
    assert trace.length - sum(event.text in ("COMMIT", "ROLLBACK") for event in trace.events) <= longest


# By fix: a scenario, and the budgets that it must bear.
HOLDS = {
    "key and effect in one transaction": (message(stock_inside, times=2, others="C"), ANY),
    "record and effect in one transaction": (message(claim_then(sell_inside), times=3), ANY),
    "a record, and a key at the service": (message(claim_then(pay), deduplicates=True, times=3), ANY),
    "a transaction, and a key at the service": (message(payment_inside_with_its_key, True, times=2, others="C"), ANY),
    "a key for each effect": (two_effects(a_key_for_each, times=2), ANY),
    "the lock before the key": (message(lock_then_key, lock=True), {}),
    "a record that is released when the lock is taken": (
        message(claim_then(pay_under_the_lock), deduplicates=True, times=3, lock=True),
        {"crashes": 1, "pauses": 1},
    ),
    "keys kept for as long as messages come": (purged(14 * DAY), ANY),
    "owners release their own claim": (late_release(IdempotencyRecords), ANY),
    "the event in the status' transaction": (completion(status_with_outbox, relays=True), ANY),
    "the same, for two workers": (two_complete(status_with_outbox), ANY),
    "a status that is lost is no new one": (two_complete(redis_status_then_publish, evicted=True), ANY),
    "a consumer that knows its events": (consumed(sell_once_for_each), ANY),
    "compare and set": (late_status(RedisStatusStore), ANY),
    "a reader's token": (cached(StatusCache), {"pauses": None, "lost_replies": 1}),
    "a time to live": (cached_for(TTL), {"crashes": 1}),
}
BREAKS = {
    "it looks for the key first": (message(lambda *world: stock_inside(*world, LooksFirst)), {"pauses": 1}),
    "anybody completes": (message(claim_then(sell_inside, AnybodyCompletes)), {"pauses": 1}),
    "it forgets what is done": (message(claim_then(sell_inside, Forgetful)), {"crashes": 1}),
    "attempts have one owner": (late_release(IdempotencyRecords, owner="worker"), {"pauses": 1}),
    "it takes over from the living": (late_release(Impatient), {}),
    "a dead owner's claim never ends": (message(claim_then(pay, Tolerant), deduplicates=True, times=3), {"crashes": 1}),
    "the service knows no keys": (message(claim_then(pay), deduplicates=False), {"crashes": 1}),
    "the service knows no keys, in a transaction": (message(payment_inside_with_its_key), {"crashes": 1}),
    "the service's key is the attempt's": (message(claim_then(pay, key_of=str), deduplicates=True), {"crashes": 1}),
    "the lock before the key, and a crash": (message(lock_then_key, lock=True), {"crashes": 1}),
    "the message goes while another is busy": (
        message(claim_then(pay, done=(Done, InProgress)), deduplicates=True),
        {"crashes": 1, "pauses": 1},
    ),
    "a consumer that knows no events": (consumed(sell_for_each), {"crashes": 1}),
    "forgotten before the commit": (cached(StatusCache, forget_before_the_commit), {}),
    "forgotten only when the commit is sure": (cached(StatusCache, forget_only_when_sure), {"lost_replies": 1}),
    "a long time to live": (cached_for(10 * TTL), {"crashes": 1}),
}


@pytest.mark.parametrize("fix", HOLDS)
def test_a_fix_holds_within_bounds_that_include_what_broke_it(fix):
    scenario, budgets = HOLDS[fix]
    explore(scenario, **budgets).assert_holds()


@pytest.mark.parametrize("mutant", BREAKS)
def test_what_lacks_one_thing_is_violated(mutant):
    scenario, budgets = BREAKS[mutant]
    assert explore(scenario, **budgets).outcome == "violated"


def test_the_honest_limit_is_at_least_once():
    for scenario in (message(claim_then(pay), times=3), relayed(Relay)):
        verdict = explore(scenario, **ANY)
        assert set(verdict.violations) == {ONCE}
        assert verdict.stopped is None


def test_who_is_overtaken_is_told_and_rolls_back():
    (told,) = shown(IdempotencyRecords, "Holds")
    error = replay(told.scenario, told.schedule).events[-1].ending.error
    assert error.startswith("ClaimLost: 'order-1:charge' cannot be completed by")
