"""The widgets, driven from Python as a front end drives them: by clicks and by values."""

import pytest

from labkit import ScenarioError, explore
from labkit.errors import LabError
from labkit.widgets import Browser, Hints, Parsons, Prediction, Quiz, Stepper, Tuner, recap
from labkit.widgets.prediction import Recap, forget
from tests.test_play import two_handlers

BREAKS = "at most one mail"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def _new_kernel():
    forget()


def click(widget, *choices):
    for choice in choices:
        widget.buttons[choice].click()


# ---- the stepper


def test_a_scenario_is_stepped_to_a_violation_by_clicks_and_laid_beside_the_shortest():
    stepper = Stepper(two_handlers, breaks=BREAKS, goal="make both mails go out")
    click(stepper, "A", "B", "A", "B", "A", "B")
    assert stepper.is_reached
    assert "Goal reached: 'at most one mail' is broken" in stepper.message
    assert "yours: 6 steps; the shortest: 6 steps" in stepper.result.value


def test_a_longer_way_to_the_goal_is_told_that_there_is_a_shorter_one():
    stepper = Stepper(two_handlers, breaks=BREAKS, crashes=1, pauses=1)
    stepper.paste("A B A clock B A B")
    assert "yours: 7 steps; the shortest: 6 steps" in stepper.result.value


def test_what_is_not_possible_has_its_button_disabled_and_the_reason_in_its_tooltip():
    stepper = Stepper(two_handlers, "A A A")
    assert stepper.buttons["A"].disabled
    assert "A has returned" in stepper.buttons["A"].tooltip
    assert not stepper.buttons["B"].disabled


# ---- the others


def test_an_order_of_cards_counts_when_the_lab_confirms_it():
    cards = Parsons(two_handlers, breaks=BREAKS)
    texts = [str(card) for card in cards.cards]
    right = [
        texts.index(f"{who}: {what}")
        for what in ("GET order:1:mailed", "SET order:1:mailed yes EX 30", "mail.send(order-1)")
        for who in "AB"
    ]
    cards.put(right)
    assert cards.attempt()
    cards.put(right[::-1])
    assert not cards.attempt()


def test_a_prediction_is_compared_and_kept_for_the_recap(capsys):
    guess = Prediction("How often?", unit="of 100")
    guess.box.value = "10"
    guess._record.click()
    guess.compare(16)
    assert capsys.readouterr().out == "you said 10, it was 16 of 100\n"
    Prediction("Which?", choices=["twice", "lost"]).compare("twice")
    assert capsys.readouterr().out == "you made no prediction; it was twice\n"
    recap()
    assert "you said: 10; it did: 16 of 100" in capsys.readouterr().out


def test_moving_a_slider_changes_the_verdict_and_the_picture():
    tuner = Tuner(visibility_timeout=30, job_seconds=45)
    before = tuner.picture.value
    assert "violated" in tuner.message
    tuner.sliders["visibility_timeout"].value = 60
    assert "holds" in tuner.message
    assert tuner.picture.value != before


def test_hints_open_one_after_another_and_the_solution_waits_for_an_attempt():
    attempts = []
    hints = Hints("look", "closer", "very close", solution="x = 1", attempted=lambda: bool(attempts))
    with pytest.raises(LabError, match="first the nudge"):
        hints.open(2)
    for level in (1, 2, 3):
        hints.open(level)
    with pytest.raises(LabError, match="after your first attempt"):
        hints.open(4)
    attempts.append("an attempt")
    hints.open(4)
    assert "x = 1" in hints.opened.value


def test_a_wrong_answer_is_explained():
    quiz = Quiz([("Why?", {"chance": "Chance repeats nothing.", "order": "The order decides."}, "order")])
    quiz.buttons[0]["chance"].click()
    assert "✗ No. Chance repeats nothing." in quiz.explained[0].value
    quiz.buttons[0]["order"].click()
    assert quiz.message == "1 of 1 answered, 0 at the first try."


def test_every_violation_of_a_verdict_can_be_stepped_through():
    browser = Browser(explore(two_handlers, crashes=1))
    assert len(browser.found) == 2
    browser.list.value = 1
    while browser.stepper.play.ahead:
        browser.stepper.redo()
    assert browser.found[1][0] in browser.stepper.play.broken


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stepper(two_handlers, "A B"),
        lambda: Prediction("How often?"),
        lambda: Parsons(two_handlers, breaks=BREAKS),
        Tuner,
        lambda: Hints("look"),
        lambda: Quiz([("Why?", {"chance": "No.", "order": "Yes."}, "order")]),
        lambda: Browser(explore(two_handlers)),
    ],
)
def test_each_has_a_text_for_where_no_widget_can_be_the_same_each_time(make):
    one, other = make()._repr_mimebundle_(), make()._repr_mimebundle_()
    assert one.pop(VIEW) != other.pop(VIEW)
    assert one == other
    assert set(one) == {"text/plain", "text/html"}
    assert "0x" not in one["text/plain"]


def test_a_property_that_nobody_states_cannot_be_the_goal():
    with pytest.raises(ScenarioError, match="states no property 'nonsense'"):
        Stepper(two_handlers, breaks="nonsense")
    with pytest.raises(ScenarioError, match="states no property 'nonsense'"):
        Parsons(two_handlers, breaks="nonsense")


def test_an_empty_recap_says_so():
    assert repr(Recap([])) == "No prediction has been compared yet."
