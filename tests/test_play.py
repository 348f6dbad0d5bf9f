"""An execution that is taken choice by choice, and back, and looked at in between."""

import threading

import pytest

from labkit import ScheduleError, explore
from labkit.budgets import Budgets
from labkit.play import Play


def handle(r, mail):
    seen = r.get("order:1:mailed")
    if seen is None:
        r.set("order:1:mailed", "yes", ex=30)
        mail.send("order-1")


def two_handlers(lab):
    for name in "AB":
        lab.worker(name, handle, lab.redis(), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)
    lab.at_end("the mail went out", lambda: lab.mail.count("order-1") >= 1)


def test_a_choice_is_taken_and_undone_and_redone():
    play = Play(two_handlers)
    start = str(play)
    play.take("A")
    after = str(play)
    assert str(play.schedule) == "A"
    play.undo()
    assert str(play) == start
    assert str(play.ahead) == "A"
    play.redo()
    assert str(play) == after
    play.reset()
    assert str(play) == start


def test_another_choice_than_the_one_undone_forgets_what_lay_ahead_and_the_same_keeps_it():
    play = Play(two_handlers, "A B A")
    play.reset()
    play.take("A")
    assert str(play.ahead) == "B A"
    play.take("A")
    assert not play.ahead


def test_a_worker_shows_its_source_with_the_current_line_and_its_local_variables():
    play = Play(two_handlers, "A")
    view = play.workers[0]
    (frame,) = view.frames
    assert frame.lines[frame.current - frame.first].strip() == 'r.set("order:1:mailed", "yes", ex=30)'
    assert dict(frame.variables) == {"r": "a redis.Redis", "mail": "a Service", "seen": "None"}
    assert view.text == "next SET order:1:mailed yes EX 30"


def test_keys_are_shown_with_what_they_have_left_and_effects_with_their_number():
    play = Play(two_handlers, "A B A B A B")
    assert [(held.name, held.value, held.ttl) for held in play.holdings] == [
        ("order:1:mailed", "yes", "30 s left"),
        ("order-1", "twice", ""),
    ]
    assert [str(prop) for prop in play.properties] == [
        "✗ at most one mail: broken at step 6",
        "✓ the mail went out: holds so far",
    ]


def test_what_is_not_possible_is_refused_with_the_reason_and_changes_nothing():
    play = Play(two_handlers, "A")
    before = str(play)
    with pytest.raises(ScheduleError, match="no crash is left; `crashes=` says how many there may be"):
        play.take("crash:A")
    with pytest.raises(ScheduleError, match="choice 5, `A`, is not possible: A has returned"):
        play.paste("A A A B A")
    with pytest.raises(ScheduleError, match="there is no worker C"):
        play.take("C")
    assert str(play) == before


def test_budgets_say_what_may_go_wrong():
    play = Play(two_handlers, "", Budgets(crashes=1))
    assert [str(choice) for choice in play.choices] == ["A", "B", "crash:A", "crash:B"]
    play.take("crash:A")
    assert [str(choice) for choice in play.choices] == ["B"]
    assert play.workers[0].text == "was killed"


def test_it_goes_on_in_another_thread_as_notebooks_need_since_clicks_come_in_one_of_their_own():
    play = Play(two_handlers, "A B")
    play.undo()
    failed = []

    def click():
        try:
            play.redo()
            play.take("A")
            play.undo()
        except BaseException as error:
            failed.append(error)

    for _ in range(2):
        thread = threading.Thread(target=click)
        thread.start()
        thread.join()
        play.undo()
    assert not failed
    assert str(play.schedule) == "A"
    assert play.workers[0].frames


def test_a_counterexample_knows_the_scenario_that_it_came_from():
    trace = explore(two_handlers).counterexample
    scenario, seed, _ = trace.origin
    play = Play(scenario, trace.schedule, seed=seed)
    assert play.trace == trace
    assert play.explore().counterexample == trace
