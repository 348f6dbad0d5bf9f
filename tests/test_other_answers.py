"""Right answers that look unlike the solution pass, and what goes wrong around a check is told in words."""

import time

import pytest

from labkit.exercises import (
    build_the_world,
    complete_once,
    deduct_once,
    fenced_write,
    jobs_needed,
    keep_hidden,
    safer_flow,
    say_what_must_hold,
    send_once,
    settle,
    take_and_release,
    two_at_once,
    write_program,
)
from labkit.queues import QueueError


def beat_every(seconds):
    def my_beat(queue, message, done, lost):
        while not done.wait(seconds):
            try:
                kept = queue.change_visibility(message.receipt_handle, 30)
            except QueueError:
                kept = False
            if not kept:
                return lost.set()
        return None

    return my_beat


@pytest.mark.parametrize("seconds", [7.5, 15, 20, 25])
def test_a_heartbeat_may_come_at_any_pace_that_is_well_below_the_timeout(seconds):
    answer = keep_hidden.check(beat_every(seconds))
    assert answer.passes, answer.message


def test_an_acquire_that_waits_for_the_lock_passes_since_the_lock_ends():
    def acquire(r, name, token):
        while not r.set(name, token, nx=True, ex=30):
            time.sleep(0.1)
        return True

    answer = take_and_release.check(acquire, take_and_release.reference[1])
    assert answer.passes, answer.message


def test_a_release_that_raises_when_the_lock_is_another_ones_passes():
    def acquire(r, name, token):
        return r.lock(name, timeout=30, blocking=False).acquire(token=token)

    def release(r, name, token):
        lock = r.lock(name, timeout=30)
        lock.local.token = token.encode()
        lock.release()

    answer = take_and_release.check(acquire, release)
    assert answer.passes, answer.message


def test_a_lock_around_the_receipt_passes_although_it_ends_in_a_pause():
    def my_send_receipt(r, mail):
        with r.lock("lock:42", timeout=30):
            if not r.exists("receipt:42"):
                r.set("receipt:42", "sent")
                mail.send("order-42")

    answer = send_once.check(my_send_receipt)
    assert answer.passes, answer.message


def test_a_retry_in_the_worker_passes_when_the_outage_ends():
    def my_handle(queue, message, charge, dead_letters):
        while True:
            try:
                charge(message.body["order"], message.id)
                break
            except ConnectionError:
                time.sleep(1)
            except ValueError:
                dead_letters.send(message.body)
                break
        queue.delete(message.receipt_handle)

    answer = settle.check(my_handle)
    assert answer.passes, answer.message


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")

    def my_jobs(seen, name):
        found = jobs_needed.reference[0](seen, name)
        return None if found is None else numpy.int64(found)

    assert jobs_needed.check(my_jobs).passes


def test_async_and_yield_are_refused_before_anything_is_searched():
    async def waits(db, order):
        pass

    def yields(db, order):
        yield order

    for attempt, word in ((waits, "async"), (yields, "yield")):
        answer = deduct_once.check(attempt)
        assert not answer.passes
        assert f"with {word}, calling it runs none of its code" in answer.message


def test_a_lost_race_that_raises_is_not_called_no_race():
    def my_complete_job(r, job):
        with r.pipeline() as pipe:
            pipe.watch(f"job_status:{job}")
            if pipe.get(f"job_status:{job}") != b"completed":
                pipe.multi()
                pipe.set(f"job_status:{job}", "completed").rpush("outbox", job)
                pipe.execute()

    def write(r, number, text):
        with r.lock("w", timeout=10):
            if number < int(r.get("report:number") or 0):
                return False
            r.mset({"report:number": number, "report": text})
            return True

    for exercise, attempt, error in ((complete_once, my_complete_job, "WatchError"), (fenced_write, write, "LockNot")):
        answer = exercise.check(attempt)
        assert f"raised {error}" in answer.message
        assert "it was overtaken" in answer.message
        assert "it is no race" not in answer.message


def test_a_wait_for_what_a_dead_worker_holds_is_told_apart_from_too_many_steps():
    def my_complete_job(r, job):
        with r.lock("lock:1"):
            if r.get(f"job_status:{job}") != b"completed":
                r.pipeline().set(f"job_status:{job}", "completed").rpush("outbox", job).execute()

    answer = complete_once.check(my_complete_job)
    assert "if the one that has it is dead" in answer.message


def test_a_search_that_the_clock_cut_short_says_that_the_machine_may_be_busy(monkeypatch):
    monkeypatch.setattr(write_program, "MOST_SECONDS", 1e-9)
    assert "this machine is busy" in safer_flow.check(*safer_flow.reference).message


def test_an_endless_loop_outside_of_a_worker_is_stopped_and_a_called_exit_is_told():
    def endless(*_):
        while True:
            pass

    def leaves(*_):
        raise SystemExit

    for exercise in (jobs_needed, two_at_once):
        assert "used 2 seconds of real time" in exercise.check(endless).message
    for exercise in (jobs_needed, two_at_once, say_what_must_hold, build_the_world):
        assert "raised SystemExit (leaves, line" in exercise.check(leaves).message


@pytest.mark.parametrize(
    ("check", "what"),
    [(lambda: (one for one in ()), "all(...)"), (lambda: answers_later(), "a coroutine")],
    ids=["generator", "coroutine"],
)
def test_a_check_whose_answer_is_true_whatever_is_in_it_is_refused(check, what):
    answer = say_what_must_hold.check(lambda lab, jobs: lab.at_end("done", check))
    assert not answer.passes
    assert what in answer.message


async def answers_later():
    return False


def test_a_message_that_ends_with_a_question_gets_no_full_stop():
    answer = say_what_must_hold.check(lambda lab, jobs: lab.at_end("done", lambda: None))
    assert answer.message.endswith("forget to return?")
