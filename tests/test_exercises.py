"""Every exercise: its solution passes, its starter does not, and each planted mistake is told its own hint."""

import time

import pytest

from labkit.errors import LabError
from labkit.exercises import (
    all_exercises,
    block_for_ever,
    build_the_world,
    complete_once,
    enough_fixes,
    lose_the_status,
    lose_the_task,
    record,
    say_what_must_hold,
    why_again,
)
from labkit.exercises.answer import Steppable
from labkit.exercises.exercise import Exercise
from labkit.watchdog import watchdog
from tests.programs import COMPLETE

EXERCISES = all_exercises()
MISTAKES = [
    pytest.param(exercise, mistake, id=f"{exercise.name}: {mistake.name}")
    for exercise in EXERCISES.values()
    for mistake in exercise.mistakes
]


@pytest.fixture(params=EXERCISES.values(), ids=list(EXERCISES))
def exercise(request):
    return request.param


@pytest.fixture
def nothing_attempted(monkeypatch):
    monkeypatch.setattr(record, "_attempted", set())


def code_lines(text):
    return [line for line in text.splitlines() if line.strip()]


# ---- all of them


def test_an_exercise_is_imported_under_the_name_of_its_file(exercise):
    assert exercise.name in EXERCISES
    assert EXERCISES[exercise.name] is exercise


def test_the_solution_passes(exercise):
    answer = exercise.check(*exercise.reference)
    assert answer.passes, answer


def test_the_untouched_starter_does_not_pass(exercise):
    answer = exercise.check(*exercise.starting_point)
    assert not answer.passes
    assert "bug of the lab" not in answer.message


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_mistake_is_told_its_hint_and_no_other_mistakes(exercise, mistake):
    answer = exercise.check(*mistake.attempt)
    assert not answer.passes
    assert mistake.hint in answer.message


def test_what_a_learner_writes_fits_in_twelve_lines(exercise):
    assert len(code_lines(exercise.text_of(exercise.reference))) <= 12


def test_starter_and_solution_are_python_that_says_nothing_of_types(exercise):
    for attempt in (exercise.starting_point, exercise.reference):
        text = exercise.cell(attempt)
        compile(text, exercise.name, "exec")
        assert "->" not in text
        assert '"""' not in text


def test_three_hints_go_from_a_nudge_to_nearly_the_answer(exercise, capsys):
    for level in (0, 1, 2, 3, 9):
        exercise.hint(level)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1] != lines[2] != lines[3] == lines[4]


def test_the_solution_is_shown_after_an_attempt_only_and_the_untouched_starter_is_none(exercise, nothing_attempted):
    hints = exercise.hints
    for attempt, is_one in ((exercise.starting_point, False), ((), True)):
        exercise.check(*attempt)
        assert ("First have a go" not in repr(exercise.solution)) is is_one
        assert hints.is_locked is not is_one
    assert repr(exercise.solution) == exercise.text_of(exercise.reference)


def test_an_untouched_set_of_fixes_is_known_in_any_order(nothing_attempted):
    for order in (("lock", "guard"), ("guard", "lock"), {"guard", "lock"}):
        enough_fixes.check(order)
        assert enough_fixes.hints.is_locked
    enough_fixes.check(("lock", "no such fix"))
    assert not enough_fixes.hints.is_locked


@pytest.mark.parametrize("attempt", [(), (None,), (lambda: None,), (lambda *_: 1 / 0,), ("",), (3, 4, 5)], ids=range(6))
def test_a_check_never_raises(exercise, attempt):
    answer = exercise.check(*attempt)
    assert not answer.passes
    assert "bug of the lab" not in answer.message


def test_a_check_that_fails_itself_says_so_and_does_not_raise():
    class Broken(Exercise):
        def judge(self, *attempt):
            raise attempt[0]()

    def wrong():
        return KeyError("no")

    def refused():
        return LabError("too many steps")

    def solution():
        pass

    broken = Broken("b", "t", names=["f"], starter=(solution,), solution=(solution,), hints=("1", "2", "3"))
    assert "failed with KeyError: 'no'. This is a bug of the lab" in broken.check(wrong).message
    assert "could not be searched: too many steps" in broken.check(refused).message


# ---- one of them in full


def starter(r, job):
    if r.get(f"job_status:{job}") != b"completed":
        r.set(f"job_status:{job}", "completed")
        r.rpush("outbox", job)


def test_the_answer_has_a_picture_and_the_line():
    answer = complete_once.check(starter)
    assert "starter, line" in repr(answer)
    assert "<img" in answer._repr_html_()


def test_the_answer_opens_a_stepper_at_the_beginning_of_the_counterexample():
    answer = complete_once.check(starter)
    shown = Steppable(answer, answer.shown)
    shown.opener.click()
    assert shown.message == ""
    assert "lk-stepper" in shown.view.children[-1]._dom_classes
    assert shown.text == repr(answer)


def test_an_answer_without_an_execution_has_no_button(capsys):
    complete_once.check(*complete_once.reference)._ipython_display_()
    shown = capsys.readouterr().out
    assert "holds in all" in shown
    assert "Step through it" not in shown


def test_the_answer_names_the_bounds_within_which_the_solution_holds():
    assert "at most 1 crash, at most 1 pause: holds in all" in repr(complete_once.check(*complete_once.reference))


def test_an_attempt_that_raises_is_told_apart_from_a_race():
    answer = complete_once.check(lambda r, job: undefined_name)  # noqa: F821
    assert "raised NameError" in answer.message
    assert "it is no race" in answer.message


def test_other_parameters_are_told_apart_from_a_race():
    message = complete_once.check(lambda r: None).message
    assert message == "my_complete_job is called with 2 arguments: my_complete_job(r, job). Yours takes others."


def test_an_attempt_that_never_steps_is_named_within_two_seconds():
    def spin(r, job):
        while True:
            pass

    before = watchdog.patience
    assert "without taking a step" in complete_once.check(spin).message
    assert watchdog.patience == before > 2


def test_an_attempt_that_loops_for_ever_is_told_so():
    def loop(r, job):
        while r.get("never") is None:
            pass

    assert "a loop that never ends" in complete_once.check(loop).message


def test_an_attempt_that_sleeps_for_ever_is_told_so():
    def loop(r, job):
        while True:
            time.sleep(1)

    assert not complete_once.check(loop).passes


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


# ---- properties and schedules


def test_a_property_that_raises_is_told_apart_from_one_that_is_violated():
    def slip(lab, jobs):
        lab.always("x", lambda: jobs.nothing)

    def typo(lab, jobs):
        lab.allways("x", lambda: True)

    assert "could not be searched" in say_what_must_hold.check(slip).message
    assert "raised AttributeError" in say_what_must_hold.check(typo).message
    assert "typo, line" in say_what_must_hold.check(typo).message


def test_properties_that_accept_everything_are_no_answer():
    def anything(lab, jobs):
        lab.always("fine", lambda: True)
        lab.at_end("fine, too", lambda: True)

    assert "You accept a program" in say_what_must_hold.check(anything).message


@pytest.mark.parametrize("schedule", ["watcher A A watcher", "A watcher A watcher", "watcher A A A watcher"])
def test_any_schedule_that_breaks_it_will_do(schedule):
    assert lose_the_status.check(schedule).passes


def test_a_fault_that_the_task_does_not_name_is_no_way_to_break_it():
    for exercise, schedule in ((block_for_ever, "lose:A B"), (lose_the_status, "watcher A lose:A watcher")):
        answer = exercise.check(schedule)
        assert answer.trace.violations
        assert not answer.passes
        assert "`lose:A` in it" in answer.message


def test_a_schedule_is_shown_as_a_picture_with_or_without_success():
    for schedule in ("watcher A A watcher", "A A A watcher"):
        assert "<img" in lose_the_status.check(schedule)._repr_html_()


def test_a_schedule_after_whose_end_workers_only_wait_is_not_told_to_go_on():
    answer = lose_the_task.check("parent parent child-1 child-1 crash:child-1 clock parent parent")
    assert answer.trace.over
    assert "add steps" not in answer.message


# ---- scenarios


def test_a_scenario_that_raises_is_told_where():
    def typo(lab, handle):
        lab.wroker("A", handle)

    message = build_the_world.check(typo).message
    assert "my_scenario raised AttributeError" in message
    assert "typo, line" in message


def test_a_scenario_without_workers_is_told_so():
    def empty(lab, handle):
        lab.always("fine", lambda: True)

    assert "no workers" in build_the_world.check(empty).message


def test_another_world_with_a_retry_instead_of_a_spared_worker_passes_too():
    def mine(lab, handle):
        payments = lab.service("psp", deduplicates=True)
        for name, order in (("A", "1"), ("B", "1"), ("C", "2"), ("D", "2")):
            lab.worker(name, handle, lab.redis(), payments, order)
        lab.at_end("each once", lambda: payments.count("1") == payments.count("2") == 1)

    assert build_the_world.check(mine).passes


# ---- queries


def test_a_query_that_raises_is_told_where():
    answer = why_again.check(lambda lines: lines[99])
    assert not answer.passes
    assert "my_verdict raised IndexError" in answer.message


def test_a_wrong_answer_is_shown_beside_what_happened_with_the_execution():
    answer = why_again.check(lambda lines: "sent twice")
    assert "You say 'sent twice'; it was 'redelivery'." in answer.message
    assert answer.shown is not None


def test_a_query_cannot_change_the_log_for_the_next_one():
    def empties(lines):
        lines[:] = [line.clear() for line in lines]

    why_again.check(empties)
    assert why_again.check(*why_again.reference).passes
