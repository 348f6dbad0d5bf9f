"""Every exercise: its solution passes, its starter and the common wrong answers get the counterexample they deserve."""

from labkit.exercises import complete_once
from labkit.watchdog import watchdog
from tests.programs import COMPLETE


def starter(r, job):
    if r.get(f"job_status:{job}") != b"completed":
        r.set(f"job_status:{job}", "completed")
        r.rpush("outbox", job)


def test_the_solution_passes_within_one_crash_and_one_pause():
    answer = complete_once.check(complete_once.solution)
    assert answer.passes
    assert "at most 1 crash, at most 1 pause: holds in all" in repr(answer)


def test_the_untouched_starter_fails_with_a_picture_and_the_line():
    answer = complete_once.check(starter)
    assert not answer.passes
    assert "starter, line" in repr(answer)
    assert "<img" in answer._repr_html_()


def test_a_lock_around_the_two_writes_still_loses_the_event():
    def locked(r, job):
        if r.set("lock", "mine", nx=True, ex=30):
            try:
                starter(r, job)
            finally:
                r.delete("lock")

    answer = complete_once.check(locked)
    assert complete_once.LOST in answer.verdict.violations


def test_a_transaction_without_a_guard_publishes_twice():
    def unguarded(r, job):
        with r.pipeline() as pipe:
            pipe.set(f"job_status:{job}", "completed")
            pipe.rpush("outbox", job)
            pipe.execute()

    answer = complete_once.check(unguarded)
    assert complete_once.TWICE in answer.verdict.violations
    assert "goes out twice" in answer.message


def test_an_attempt_that_raises_is_told_apart_from_a_race():
    answer = complete_once.check(lambda r, job: undefined_name)  # noqa: F821
    assert not answer.passes
    assert "raised NameError" in answer.message
    assert "it is no race" in answer.message


def test_an_attempt_that_does_nothing_is_not_completed():
    answer = complete_once.check(lambda r, job: None)
    assert answer.message.startswith("In the end the job is not completed")


def test_an_attempt_that_never_steps_is_named(monkeypatch):
    monkeypatch.setattr(watchdog, "patience", 0.3)

    def spin(r, job):
        while True:
            pass

    assert "without taking a step" in complete_once.check(spin).message


def test_an_attempt_that_loops_for_ever_is_told_so():
    def loop(r, job):
        while r.get("never") is None:
            pass

    assert "a loop that never ends" in complete_once.check(loop).message


def test_a_check_never_raises():
    assert not complete_once.check(None).passes
    assert not complete_once.check(lambda: None).passes


def test_another_correct_script_passes():
    def mine(r, job):
        r.eval(COMPLETE, 2, f"job_status:{job}", "outbox", job)

    assert complete_once.check(mine).passes


def test_a_lock_with_a_token_around_the_script_passes_too():
    def mine(r, job):
        if r.set("lock", "mine", nx=True, ex=30):
            r.eval(COMPLETE, 2, f"job_status:{job}", "outbox", job)
            r.delete("lock")

    assert complete_once.check(mine).passes


def test_a_race_without_faults_is_shown_before_one_that_needs_a_fault():
    answer = complete_once.check(starter)
    assert not any(choice.is_fault for choice in answer.verdict.counterexample.schedule)
    assert "no crash, no pause" in repr(answer)


def test_hints_go_from_a_nudge_to_nearly_the_answer(capsys):
    for level in (0, 1, 2, 3, 9):
        complete_once.hint(level)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1] != lines[2] != lines[3] == lines[4]
