"""What the gallery says of mends of the articles' code, and of like reports: halves of them, and other ones."""

import time
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from labkit import explore
from labkit.cases import CASES, completion_article, deploy_article, outbox, processed_events, retries, status
from labkit.idempotency import (
    DeleteOnWriteCache,
    GuardedStatusStore,
    OverwritingStatusStore,
    RedisStatusStore,
    StateMachine,
    transaction,
)
from labkit.locks import AtomicLock

NEED_A_FAULT = [
    *("000-a", "000-b", "000-c", "000-c''", "000-d", "000-e", "003-b", "003-b'", "003-b''", "003-e", "003-f", "003-g"),
    *("003-h", "P25", "P31", "P33", "P35", "P36", "P38", "P39"),
]
NEED_NONE = ["000-f", "000-g", "000-h", "000-i", "000-j", "003-a", "003-c", "003-d", "003-dlq", "P30", "P34"]


def broken(scenario, **budgets):
    """The properties that a scenario violates."""
    return set(explore(scenario, **budgets).violations)


@pytest.mark.parametrize("name", NEED_A_FAULT)
def test_without_the_fault_nothing_goes_wrong(name):
    assert CASES[name].budgets
    assert explore(CASES[name].broken).outcome == "holds"


@pytest.mark.parametrize("name", NEED_NONE)
def test_no_fault_is_needed(name):
    assert explore(CASES[name].broken).outcome == "violated"


def test_without_sigterm_the_last_receive_is_not_lost():
    assert explore(CASES["003-i"].broken, signals=0).outcome == "holds"


# ---- Article 1


def completion_under(lock_of, complete):
    """`mark_job_completed` with another lock, or in another order."""

    def mark(r, events):
        lock = lock_of(r)
        if lock.acquire(blocking=False):
            if r.get(completion_article.STATUS) != b"completed":
                complete(r, events)
            lock.release()

    return mark


def owned_lock(r):
    return AtomicLock(r, completion_article.LOCK, timeout=completion_article.TTL)


def publish_last(r, events):
    completion_article.set_completed(r)
    events.publish("1")


def publish_first(r, events):
    events.publish("1")
    completion_article.set_completed(r)


def test_to_release_only_ones_own_lock_changes_nothing_in_the_schedule_of_000_a():
    owned = partial(completion_article.two_workers, complete=completion_under(owned_lock, publish_last))
    assert explore(owned, pauses=1).counterexample.schedule == CASES["000-a"].explore().broken.counterexample.schedule


def test_to_publish_first_trades_the_lost_event_of_000_c_for_a_second_one():
    publishing_first = partial(completion_article.two_workers, complete=completion_under(owned_lock, publish_first))
    assert broken(publishing_first, crashes=1) == set()
    verdict = explore(publishing_first, pauses=1)
    assert set(verdict.violations) == {"the event goes out once"}
    assert verdict.counterexample.length == 7


def test_while_the_customer_of_000_e_is_charged_twice_status_and_event_are_perfect():
    def with_the_event(lab):
        completion_article.consumers(lab, completion_article.charge)
        lab.always("the event goes out once", lambda: lab.events.count() <= 1)

    assert broken(with_the_event, crashes=1) == {"the customer is charged once"}


def test_the_guard_of_000_f_is_true_of_bytes_and_its_mend_of_texts_as_well():
    of_bytes = partial(completion_article.decoding, decode_responses=False)
    assert explore(partial(of_bytes, guard=completion_article.is_completed)).outcome == "holds"
    assert explore(partial(of_bytes, guard=completion_article.guard_of_texts)).outcome == "holds"


def test_keepttl_gives_no_time_to_live_to_a_key_that_has_expired():
    keeping = partial(status.expiring, keepttl=True)
    assert explore(keeping).outcome == "holds"
    assert broken(keeping, pauses=1) == {"a status expires some day"}


def test_a_write_that_keeps_what_is_there_completes_nothing():
    assert broken(partial(status.expiring, ex=status.DAY, nx=True)) == {"the job is completed in the end"}


def test_to_delete_the_copy_does_not_stop_a_reader_that_looked_before():
    assert explore(partial(status.cached, cache=DeleteOnWriteCache)).outcome == "violated"


@pytest.mark.parametrize("store", [GuardedStatusStore, OverwritingStatusStore])
def test_a_guard_apart_from_its_write_is_overtaken(store):
    assert explore(partial(status.redelivery, starts=store, completes=RedisStatusStore)).outcome == "violated"
    assert explore(partial(status.launches, store=store)).outcome == "violated"


def test_a_state_machine_that_forgets_an_edge_refuses_the_end_of_a_quick_job(monkeypatch):
    edges = (("submitted", "running"), ("running", "finished"))
    monkeypatch.setattr(status, "LAUNCHED", StateMachine(edges))
    assert broken(CASES["P30"].fixed) == {"the terminal status is reached"}


# ---- Article 2


def key_first(r, db, mailer, event, keyed):
    return processed_events.key_first(r, db, mailer, event)


def test_a_record_without_a_key_at_the_service_sends_twice_and_a_key_that_comes_first_never():
    assert broken(partial(processed_events.outside, handle=key_first, keyed=True), crashes=1) == {
        "a mail is sent in the end"
    }
    unkeyed = partial(processed_events.outside, handle=processed_events.mail_under_a_record, keyed=False)
    assert broken(unkeyed, crashes=1) == {"one mail is sent"}


def test_lock_then_key_loses_an_event_when_its_worker_dies():
    lost = broken(partial(processed_events.two_orders, handle=processed_events.lock_then_key), crashes=1)
    assert "what is marked as processed was, or is being processed" in lost


def stock_without_key(r, db, mailer, event):
    mailer.call(event, idempotency_key=event)
    with transaction(db):
        db.execute(processed_events.DEDUCT)
    return True


def both_keys_first(r, db, mailer, event):
    with transaction(db):
        first = processed_events.is_first(db, event)
    if first:
        mailer.call(event)
        with transaction(db):
            db.execute(processed_events.DEDUCT)
    return True


def test_each_of_the_two_effects_needs_its_key_where_it_is():
    assert broken(partial(processed_events.two_effects, handle=stock_without_key), crashes=1) == {
        "one piece is deducted"
    }
    assert broken(partial(processed_events.two_effects, handle=both_keys_first), crashes=1) == {
        "both effects happen in the end"
    }


def test_each_half_of_the_mend_of_003_d_mends_its_own_half():
    assert broken(partial(deploy_article.slow_jobs, kept=True, keyed=False), crashes=1) == {"one mail is sent"}
    assert broken(partial(deploy_article.slow_jobs, kept=False, keyed=True), crashes=1) == {
        "one worker at a time is in the handler"
    }


def test_a_lock_of_003_d_that_outlasts_every_redelivery_leaves_the_mail_unsent(monkeypatch):
    monkeypatch.setattr(deploy_article, "TTL", 600)
    kept = partial(deploy_article.slow_jobs, kept=True, keyed=True)
    assert broken(kept, crashes=1) == {"a mail is sent in the end"}


def test_a_queue_that_refuses_old_receipts_mends_003_g_as_well():
    assert explore(partial(deploy_article.late_settlement, old_receipts="error"), pauses=1).outcome == "holds"


def test_the_message_of_003_i_outlives_a_sigkill_too():
    assert explore(CASES["003-i"].fixed, crashes=1).outcome == "holds"


# ---- reports of the same faults


def apply_after_its_row(r, db, mailer, event):
    with transaction(db):
        first = processed_events.is_first(db, event)
    with transaction(db):
        if first:
            db.execute(processed_events.DEDUCT)
    return True


def test_the_row_of_p36_must_be_in_the_transaction_of_the_change(monkeypatch):
    monkeypatch.setattr(processed_events, "apply", lambda *arguments, fixed: apply_after_its_row(*arguments))
    assert broken(CASES["P36"].fixed, crashes=1) == {"the change is applied in the end"}


def test_without_its_mark_the_message_of_p34_is_answered_each_time():
    assert broken(partial(retries.gateway, handle=retries.answer)) == {"a message is answered once"}


def test_a_mark_that_is_taken_away_on_failure_stays_when_its_worker_dies():
    assert broken(CASES["P34"].fixed, crashes=1) == {"a message is answered in the end"}


def mark_then_send_all(r, post, fixed, *waits):
    for seconds in waits:
        time.sleep(seconds)
        if r.set("sent", "yes", nx=True):
            for recipient in retries.RECIPIENTS:
                post.call(recipient)


def job_for_each(r, post, fixed, *waits):
    for seconds in waits:
        time.sleep(seconds)
        for recipient in map(bytes.decode, r.lrange("recipients", 0, -1)):
            with suppress(TimeoutError):
                post.call(recipient)
                r.lrem("recipients", 1, recipient)


def test_to_mark_the_batch_of_p38_first_leaves_recipients_without_a_mail(monkeypatch):
    monkeypatch.setattr(retries, "send_all", mark_then_send_all)
    assert broken(CASES["P38"].fixed, crashes=1) == {"each recipient gets a mail in the end"}


def test_a_job_for_each_recipient_of_p38_repeats_one_mail_and_not_two(monkeypatch):
    def with_jobs(lab):
        lab.redis().rpush("recipients", *retries.RECIPIENTS)
        retries.batch(lab, fixed=False)
        lab.always("at most one mail is repeated", lambda: lab.service("post", deduplicates=True).count() <= 3)

    assert "at most one mail is repeated" in broken(with_jobs, crashes=1)
    monkeypatch.setattr(retries, "send_all", job_for_each)
    assert broken(with_jobs, crashes=1) == {"each recipient gets one mail"}


def test_an_outbox_without_event_ids_publishes_twice_when_a_worker_dies():
    scenario = partial(outbox.outbox, change=outbox.change_with_event, relay=outbox.publish_then_delete, keyed=False)
    assert broken(scenario, crashes=1) == {"an event is published once"}


@pytest.mark.parametrize(
    ("where", "violated"),
    [
        ("status = 'running'", {"the result is that of the latest attempt"}),
        ("runner = :me AND attempt = :attempt", {"a run that timed out does not succeed"}),
        ("status = 'success'", {"the run succeeds in the end"}),
    ],
)
def test_each_part_of_the_condition_of_p31_is_needed(where, violated):
    assert broken(partial(status.timed_out, where=f"id = :id AND {where}"), pauses=1) == violated


def test_each_half_of_the_mend_of_p35_leaves_the_wallet_credited_twice():
    for halves in ({"owned": True, "together": False}, {"owned": False, "together": True}):
        assert broken(partial(status.payouts, **halves), pauses=1) == {"the wallet is credited once"}


def test_a_clock_that_is_five_minutes_ahead_breaks_p35_without_any_pause_and_not_its_mend():
    ahead = {"ahead": status.STALE}
    assert broken(partial(status.payouts, owned=False, together=False, **ahead)) == {"the wallet is credited once"}
    assert broken(partial(status.payouts, owned=True, together=True, **ahead)) == set()


@contextmanager
def undone(connection):
    yield
    connection.rollback()


def test_a_payout_that_is_not_committed_is_none(monkeypatch):
    monkeypatch.setattr(status, "transaction", undone)
    assert broken(CASES["P35"].fixed) == {"the wallet is credited in the end"}
