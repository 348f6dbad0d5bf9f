"""What each queue guarantees and what it does not: the schedules that show it, and the fixes within their bounds."""

import time

import pytest
import redis

from labkit import explore, replay
from labkit.queues import PopQueue, ReliableQueue, StreamQueue, VisibilityQueue
from tests.docstrings import shown
from tests.queue_workers import (
    MAILED,
    ONE_MAIL,
    consume,
    crashing,
    must_mail,
    one_job,
    own,
    pop,
    recover,
    reliable,
    stream,
    visibility,
    work,
)

# ---- a visibility timeout shorter than the job


def job_against_timeout(job, visibility_timeout, **attributes):
    def scenario(lab):
        one_job(lab, visibility_timeout=visibility_timeout, **attributes)
        for name in "AB":
            lab.worker(name, consume, own(lab), lab.mail, job, forever=True)
        must_mail(lab)

    return scenario


def test_a_job_of_90_s_against_a_timeout_of_30_s_is_redelivered_in_second_31_and_mailed_twice():
    verdict = explore(job_against_timeout(90, 30, max_receive_count=5))
    trace = verdict.violations[ONE_MAIL]
    receives = [event for event in trace.events if '{"order": "1"}' in event.reply]
    assert [event.time // 1_000_000 for event in receives] == [0, 30]  # the 31st second begins when 30 are over
    assert [event.reply.split(", ")[2] for event in receives] == ["1", "2"]  # the receive count
    assert len({event.worker for event in receives}) == 2


def test_a_timeout_longer_than_the_job_mails_once_when_nobody_crashes_or_pauses():
    assert explore(job_against_timeout(90, 120)).outcome == "holds"


def test_a_crash_after_the_mail_mails_twice_whatever_the_timeout():
    assert set(explore(job_against_timeout(90, 120), crashes=1).violations) == {ONE_MAIL}


def test_the_redelivery_replays_on_a_real_server(redis_url):
    scenario = job_against_timeout(90, 30, max_receive_count=5)
    trace = explore(scenario).violations[ONE_MAIL]
    assert replay(scenario, trace.schedule, redis_url=redis_url) == trace


def test_redelivery_shows_as_receives_that_rise_while_sends_are_flat():
    def scenario(lab):
        queue = one_job(lab)
        lab.worker("A", work, own(lab), lab.mail, 90)
        lab.worker("B", lambda queue, mail: (time.sleep(31), work(queue, mail)), own(lab), lab.mail)
        lab.at_end("the counters tell", lambda: (queue.attributes().sent, queue.attributes().received) == (1, 2))
        lab.at_end("and redelivery is counted", lambda: queue.attributes().redelivered == 1)

    assert explore(scenario).outcome == "holds"


def test_a_job_that_always_outlives_its_timeout_goes_round_until_it_is_a_dead_letter():
    def scenario(most):
        def build(lab):
            one_job(lab, visibility_timeout=30, max_receive_count=most)
            for name in "AB":
                lab.worker(name, consume, own(lab), lab.mail, 90, 6)
            lab.always("mailed at most twice", lambda: lab.mail.count("1") <= 2)

        return build

    assert explore(scenario(None), polls=20).outcome == "violated"
    assert explore(scenario(2), polls=20).outcome == "holds"


def try_often(queue, mail):
    for _ in range(5):
        time.sleep(33)
        work(queue, mail)


def with_heartbeat(queue, mail):
    for message in queue.receive():
        for _ in range(4):  # a job of 80 seconds
            time.sleep(20)
            if not queue.change_visibility(message.receipt_handle, 30):
                return
        mail.send(message.body["order"])
        queue.delete(message.receipt_handle)


def test_a_heartbeat_keeps_the_message_for_as_long_as_the_job_takes():
    def scenario(lab):
        one_job(lab)
        lab.worker("A", with_heartbeat, own(lab), lab.mail)
        lab.worker("B", try_often, own(lab), lab.mail, spared=True)
        must_mail(lab)

    assert explore(scenario).outcome == "holds"
    assert set(explore(scenario, crashes=1).violations) == {ONE_MAIL}  # a crash after the mail


# ---- a crash between the receive and the work


@pytest.mark.parametrize("fault", ["crashes", "lost_replies"])
def test_a_crash_or_a_lost_reply_after_the_pop_loses_the_job_and_nothing_does_it_twice(fault):
    assert explore(crashing(pop)).outcome == "holds"
    assert set(explore(crashing(pop), **{fault: 1}).violations) == {MAILED}


@pytest.mark.parametrize("make", [visibility, reliable, stream])
@pytest.mark.parametrize("fault", ["crashes", "lost_replies"])
def test_every_other_queue_keeps_the_job_but_may_do_it_twice(make, fault):
    assert explore(crashing(make)).outcome == "holds"
    assert set(explore(crashing(make), **{fault: 1}).violations) == {ONE_MAIL}


def test_nothing_redelivers_a_stream_entry_without_a_claim():
    def receive_again(queue, mail):
        time.sleep(86_400)
        work(queue, mail)

    assert set(explore(crashing(stream, receive_again), crashes=1).violations) == {MAILED}


def test_nothing_gives_back_what_a_dead_worker_had_without_a_reaper():
    def receive_again(queue, mail):
        time.sleep(86_400)
        work(queue, mail)

    assert set(explore(crashing(reliable, receive_again), crashes=1).violations) == {MAILED}


@pytest.mark.parametrize("make", [pop, visibility, reliable])
def test_the_crash_replays_on_a_real_server(make, redis_url):
    trace = explore(crashing(make), crashes=1).counterexample
    assert replay(crashing(make), trace.schedule, redis_url=redis_url) == trace


# ---- the schedule in each queue's docstring


def mail_then_work(queue, mail):
    for message in queue.receive():
        mail.send(message.body["order"])
        time.sleep(60)
        queue.delete(message.receipt_handle)


def reap_first(queue, mail):
    queue.reap()
    mail_then_work(queue, mail)


def claim_first(queue, mail):
    for message in queue.claim(min_idle=60):
        mail.send(message.body["order"])


def popped():
    """A takes the only message of a list and mails."""

    def scenario(lab):
        pop(lab, "P").send({"order": "1"})
        lab.worker("A", mail_then_work, pop(lab, "A"), lab.mail)
        must_mail(lab)

    return scenario


OVERTAKERS = {
    VisibilityQueue: (visibility, "B", mail_then_work),
    ReliableQueue: (reliable, "R", reap_first),
    StreamQueue: (stream, "R", claim_first),
}


def overtaken(kind):
    """A mails, and then works for a minute before it deletes; another brings back what seems to be lost."""
    make, name, function = OVERTAKERS[kind]

    def scenario(lab):
        queue = make(lab, "P")
        queue.send({"order": "1"})
        if kind is VisibilityQueue:
            lab.deadlines(queue.deadlines)
        lab.worker("A", mail_then_work, make(lab, "A"), lab.mail)
        lab.worker(name, function, make(lab, name), lab.mail)
        must_mail(lab)

    return scenario


def polls_on(queue, mail, recovers):
    for _ in range(2):
        try:
            work(queue, mail)
        except redis.TimeoutError:
            if recovers:
                queue.recover()
        time.sleep(30)


def starts_again(queue, mail, recovers):
    time.sleep(1)
    if recovers:
        queue.recover()
    for _ in range(2):
        work(queue, mail)
        time.sleep(30)


def reaps_later(queue, mail):
    time.sleep(60)
    queue.reap()
    work(queue, mail)


def stranded(recovers=False):
    """A asks every 30 seconds, and goes on when a receive fails; R, spared, reaps after 60."""

    def scenario(lab):
        reliable(lab, "P").send({"order": "1"})
        lab.worker("A", polls_on, reliable(lab, "A"), lab.mail, recovers)
        lab.worker("R", reaps_later, reliable(lab, "R"), lab.mail, spared=True)
        lab.at_end(MAILED, lambda: lab.mail.count("1") >= 1)

    return scenario


def restarted(recovers):
    """A may die; a process of the same name starts soon after, and asks every 30 seconds; R reaps after 60."""

    def scenario(lab):
        reliable(lab, "P").send({"order": "1"})
        lab.worker("A", work, reliable(lab, "A"), lab.mail)
        lab.worker("A2", starts_again, reliable(lab, "A"), lab.mail, recovers, spared=True)
        lab.worker("R", reaps_later, reliable(lab, "R"), lab.mail, spared=True)
        lab.at_end(MAILED, lambda: lab.mail.count("1") >= 1)

    return scenario


BROKEN = {PopQueue: [MAILED], VisibilityQueue: [ONE_MAIL], ReliableQueue: [ONE_MAIL, MAILED], StreamQueue: [ONE_MAIL]}


@pytest.mark.parametrize("kind", BROKEN)
def test_the_schedules_in_the_docstring_show_what_the_queue_does_not_do(kind):
    for told, broken in zip(shown(kind), BROKEN[kind], strict=True):
        trace = replay(told.scenario, told.schedule)
        assert trace.violation.property == broken
        assert len(trace.events) == len(told.schedule.split())


@pytest.mark.parametrize(("scenario", "budgets"), [(stranded, {"lost_replies": 1}), (restarted, {"crashes": 1})])
def test_a_living_worker_keeps_what_it_does_not_know_of_from_every_reaper_unless_it_recovers(scenario, budgets):
    assert set(explore(scenario(recovers=False), **budgets).violations) == {MAILED}
    explore(scenario(recovers=True), **budgets).assert_holds()


# ---- a reaper and a claim only guess who is dead


def test_a_worker_without_heartbeats_looks_dead_and_its_job_is_done_twice():
    def scenario(beats):
        def beating(queue, mail):
            for message in queue.receive():
                for _ in range(4):
                    time.sleep(30)
                    if beats:
                        queue.heartbeat()
                mail.send(message.body["order"])
                queue.delete(message.receipt_handle)

        def build(lab):
            reliable(lab, "P").send({"order": "1"})
            lab.worker("A", beating, reliable(lab, "A"), lab.mail)
            lab.worker("R", recover, reliable(lab, "R"), lab.mail, spared=True)
            lab.always(ONE_MAIL, lambda: lab.mail.count("1") <= 1)

        return build

    assert explore(scenario(beats=True)).outcome == "holds"
    assert explore(scenario(beats=False)).outcome == "violated"


def test_a_late_worker_deletes_a_stream_entry_that_somebody_else_has_claimed():
    def late(queue, mail):
        for message in queue.receive():
            time.sleep(90)
            mail.send(f"late delete: {queue.delete(message.receipt_handle)}")

    def claimer(queue, mail):
        time.sleep(60)
        for message in queue.claim(min_idle=50):
            time.sleep(60)
            mail.send(f"delete: {queue.delete(message.receipt_handle)}")

    def scenario(lab):
        stream(lab, "P").send({"order": "1"})
        lab.worker("A", late, stream(lab, "A"), lab.mail)
        lab.worker("B", claimer, stream(lab, "B"), lab.mail)
        lab.always("a late delete does nothing", lambda: lab.mail.count("late delete: True") == 0)

    verdict = explore(scenario)
    assert verdict.outcome == "violated"
    assert verdict.counterexample.events[-1].time == 90_000_000


# ---- receipt handles of earlier deliveries


def late_settle(old_receipts, settle):
    """A works past its timeout and then settles; B and C receive, and each works well within its own."""

    def late(queue):
        for message in queue.receive():
            time.sleep(40)
            settle(queue, message.receipt_handle)

    def prompt(queue, after, section):
        time.sleep(after)
        for message in queue.receive():
            with section("working"):
                time.sleep(25)
            queue.delete(message.receipt_handle)

    def scenario(lab):
        queue = one_job(lab, old_receipts=old_receipts)
        lab.worker("A", late, own(lab))
        lab.worker("B", prompt, own(lab), 31, lab.section)
        lab.worker("C", prompt, own(lab), 41, lab.section)
        lab.always("one works at a time", lambda: lab.inside("working") <= 1)
        lab.always("what is worked on is kept", lambda: not lab.inside("working") or bool(queue.deadlines()))

    return scenario


def give_back(queue, receipt_handle):
    queue.change_visibility(receipt_handle, 0)


def delete(queue, receipt_handle):
    queue.delete(receipt_handle)


def test_an_old_receipt_that_counts_gives_somebody_elses_message_to_a_third():
    assert "one works at a time" in explore(late_settle("delete", give_back)).violations


def test_an_old_receipt_that_counts_deletes_what_somebody_else_works_on():
    assert set(explore(late_settle("delete", delete)).violations) == {"what is worked on is kept"}


@pytest.mark.parametrize("settle", [give_back, delete])
@pytest.mark.parametrize("old_receipts", ["ignore", "error"])
def test_an_old_receipt_that_is_ignored_or_refused_does_no_harm(old_receipts, settle):
    verdict = explore(late_settle(old_receipts, settle))
    assert verdict.outcome == "holds"
    assert ("ReceiptHandleHasExpired" in repr(verdict)) == (old_receipts == "error")


# ---- dead letters


def dead_letter_scenario(job, visibility_timeout, most=1):
    def scenario(lab):
        queue = one_job(lab, visibility_timeout=visibility_timeout, max_receive_count=most)
        lab.worker("A", work, own(lab), lab.mail, job)
        lab.worker("B", lambda queue, mail: (time.sleep(31), work(queue, mail)), own(lab), lab.mail)
        lab.at_end(
            "what is done is no dead letter", lambda: not (lab.mail.count("1") and queue.dead_letters.deadlines())
        )

    return scenario


def test_a_message_becomes_a_dead_letter_while_it_is_worked_on():
    verdict = explore(dead_letter_scenario(job=45, visibility_timeout=30))
    assert verdict.outcome == "violated"
    deletes = [event.reply for event in verdict.counterexample.events if event.text.startswith("script 'delete'")]
    assert deletes == ["[0]"]


def test_a_timeout_longer_than_the_job_keeps_it_from_the_dead_letters():
    assert explore(dead_letter_scenario(job=45, visibility_timeout=60)).outcome == "holds"


def test_with_a_receive_count_of_one_a_lost_reply_buries_a_message_that_nobody_ever_saw():
    def scenario(most):
        def build(lab):
            queue = one_job(lab, max_receive_count=most)
            lab.worker("A", work, own(lab), lab.mail)
            lab.worker("R", recover, own(lab), lab.mail, spared=True)
            lab.at_end("a dead letter was worked on", lambda: lab.mail.count("1") or not queue.dead_letters.deadlines())

        return build

    assert explore(scenario(1), lost_replies=1).outcome == "violated"
    assert explore(scenario(2), lost_replies=1).outcome == "holds"


# ---- the caller's clock


def clocks(skew=0):
    """A works for 20 of its 30 seconds; B comes after 10, and after 30."""

    def hold(queue, section):
        for message in queue.receive():
            with section("holding"):
                time.sleep(20)
            queue.delete(message.receipt_handle)

    def later(queue, section):
        for pause in (10, 20):
            time.sleep(pause)
            hold(queue, section)

    def scenario(lab):
        one_job(lab)
        lab.worker("A", hold, own(lab), lab.section)
        lab.worker("B", later, own(lab), lab.section, skew=skew)
        lab.always("one holder while the timeout lasts", lambda: lab.inside("holding") <= 1)

    return scenario


def test_a_worker_whose_clock_runs_ahead_takes_what_another_still_works_on():
    assert explore(clocks()).outcome == "holds"
    assert explore(clocks(skew=15)).outcome == "holds"
    assert explore(clocks(skew=25)).outcome == "violated"


def test_a_worker_that_is_paused_between_its_clock_and_its_request_hides_for_less_long():
    verdict = explore(clocks(), pauses=1)
    assert verdict.outcome == "violated"
    first, second = [event for event in verdict.counterexample.events if "order" in event.reply]
    assert second.time - first.time < 30_000_000
