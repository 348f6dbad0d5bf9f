"""What widgets show: the marks, words and pictures by which a learner sees how things stand."""

import pytest

from labkit import explore
from labkit.frames import Frame
from labkit.incidents import CHECKLIST
from labkit.plots.style import look
from labkit.trace import MOST_DRAWN
from labkit.widgets import Browser, Checklist, HereAndNow, Hints, Parsons, Prediction, Quiz, Stepper, Tuner
from labkit.widgets.checklist import forget as forget_checklists
from labkit.widgets.marks import dye
from labkit.widgets.prediction import Comparison, Recap, forget
from labkit.widgets.scene import MOST_LINES, _code
from labkit.widgets.shown import button
from tests.pictures import contrast
from tests.programs import article_fix
from tests.test_play import two_handlers

BREAKS = "at most one mail"


@pytest.fixture(autouse=True)
def _new_kernel():
    forget()
    forget_checklists()


# ---- the stepper


def test_the_shortest_way_is_told_from_a_longer_one():
    shortest = Stepper(two_handlers, "A B A B A B", breaks=BREAKS).result.value
    longer = Stepper(two_handlers, "A B A clock B A B", breaks=BREAKS, pauses=1).result.value
    assert "Nobody can do it in fewer." in shortest
    assert "There is a shorter way." not in shortest
    assert "There is a shorter way." in longer


def test_an_execution_that_ends_without_its_goal_says_to_try_another_order():
    with_goal, without = Stepper(two_handlers, "A A A B", breaks=BREAKS), Stepper(two_handlers, "A A A B")
    assert with_goal.message.endswith(
        "B returned. Nothing more can happen. The goal is not reached: undo, and try another order."
    )
    assert without.message.endswith("Nothing more can happen.")


def test_the_row_of_faults_is_there_when_there_are_faults():
    assert Stepper(two_handlers)._faults.layout.display == "none"
    assert Stepper(two_handlers, crashes=1)._faults.layout.display == "flex"


def test_a_button_says_what_its_choice_means():
    buttons = Stepper(two_handlers, crashes=1, lost_replies=1).buttons
    assert buttons["crash:A"].tooltip.startswith("A is killed where it stands, as kill -9 does")
    assert "the reply never arrives" in buttons["lose:A"].tooltip
    assert buttons["A"].tooltip == "A takes its next step."


def test_an_execution_too_long_for_a_picture_is_a_table():
    def scenario(lab):
        lab.worker("A", lambda r: [r.incr("n") for _ in range(MOST_DRAWN + 1)], lab.redis())

    short, long = (Stepper(scenario, " ".join("A" * count)) for count in (2, MOST_DRAWN + 1))
    assert "<svg" in short.picture.value
    assert "<img" in short.static_html
    assert long.picture.value.startswith("<pre>step  time")
    assert "<img" not in long.static_html


def test_who_is_in_a_section_and_what_is_not_set_yet_can_be_seen():
    assert "inside holding the lock" in Stepper(article_fix, "A").scene.value
    assert '<th scope="row">seen</th><td class="lk-mono">—</td>' in Stepper(two_handlers).scene.value


@pytest.mark.parametrize("current", [1, 20, 40])
def test_of_a_long_function_the_lines_around_the_current_one_are_shown(current):
    shown = _code(Frame("work", 1, tuple(f"line {number}." for number in range(1, 41)), current, ()))
    assert shown.count("lk-line") == MOST_LINES
    assert f"▶ {current:>2}  line {current}." in shown


@pytest.mark.parametrize("place", range(7))
def test_words_on_a_button_can_be_read_on_its_colour(place):
    made = button("A")
    dye(made, place)
    assert made.style.button_color == look(place).color
    assert contrast(made.style.text_color, made.style.button_color) >= 4.5


# ---- the others


def test_every_counterexample_of_a_property_is_listed_named_and_drawn():
    verdict = explore(two_handlers, others=2, symmetry=False)
    wanted = [verdict.violations[BREAKS], *verdict.others[BREAKS]]
    browser = Browser(verdict)
    assert len(wanted) == 3
    assert [trace for _, trace in browser.found] == wanted
    assert browser.static_html.count("<img") == 3
    assert browser.message.startswith("at most one mail: broken after 6 choices.")


def test_cards_are_drawn_up_to_the_step_that_went_another_way():
    cards = Parsons(two_handlers, breaks=BREAKS)
    texts = [str(card) for card in cards.cards]
    get, send = texts.index("A: GET order:1:mailed"), texts.index("A: mail.send(order-1)")
    cards.put([get, send])
    assert not cards.attempt()
    assert "Lane diagram of 1 step by" in cards.picture.value
    cards.put([send])
    assert not cards.attempt()
    assert "<svg" not in cards.picture.value


def test_the_first_card_cannot_move_further_up():
    cards = Parsons(two_handlers, breaks=BREAKS)
    cards.put([0, 1])
    cards.slots[0].click()
    cards.up.click()
    assert (cards.order, cards.picked) == ([0, 1], 0)


def test_a_prediction_that_came_true_has_a_mark_and_another_has_none():
    right, wrong = Prediction("Which?", choices=["twice", "lost"]), Prediction("How many?")
    right.answer("twice")
    right.compare("twice")
    wrong.answer("2")
    wrong.compare(3)
    assert "✓ you said twice" in Comparison(right)._repr_html_()
    assert "✓" not in Comparison(wrong)._repr_html_()
    rows = Recap([right, wrong])._repr_html_().split("<tr>")
    assert "✓ yes" in rows[2]
    assert "✓" not in rows[3]


def test_what_was_compared_can_be_answered_no_more():
    guess = Prediction("How many?")
    guess.answer("2")
    assert not guess._record.disabled
    guess.compare(3)
    assert guess._record.disabled
    assert guess.box.disabled


def test_answers_of_a_quiz_that_were_tried_are_marked_right_or_wrong():
    quiz = Quiz([("Why?", {"chance": "No.", "order": "Yes.", "luck": "No."}, "order")])
    quiz.buttons[0]["chance"].click()
    quiz.buttons[0]["order"].click()
    assert [made.description for made in quiz.buttons[0].values()] == ["✗ chance", "✓ order", "luck"]
    for line in ("✗ chance: No.", "✓ order: Yes.", "✗ luck: No."):
        assert f"<li>{line}</li>" in quiz.static_html


def test_hints_can_be_pressed_in_turn_and_a_locked_solution_is_in_no_html():
    hints = Hints("look", "closer", solution="x = 1", attempted=lambda: False)
    assert "x = 1" not in hints.static_html
    assert [made.disabled for made in hints._buttons] == [False, True, True]
    hints.open(1)
    assert [made.disabled for made in hints._buttons] == [False, False, True]
    assert "x = 1" in Hints("look", solution="x = 1").static_html


def test_a_note_of_several_lines_stays_in_its_row():
    mine = Checklist()
    mine.answer(CHECKLIST[0].name, "no", "two\nlines")
    assert f"| {CHECKLIST[0].name} | no | two lines |" in mine.markdown


def test_what_is_here_and_now_is_shown_as_the_picture_that_it_is():
    picture = explore(two_handlers).counterexample.lanes()
    assert picture.html in HereAndNow(picture).box.value
    assert "<pre>&lt;b&gt;</pre>" in HereAndNow("<b>").box.value


def test_what_is_said_is_marked_good_or_bad_and_not_by_colour_alone():
    hints = Hints("look")
    for kind, mark in (("good", "✓ "), ("bad", "✗ "), ("error", "✗ "), ("calm", "")):
        hints.say("so it is", kind)
        assert f">{mark}so it is<" in hints.status.value


def test_the_tuner_lists_what_does_not_fit_and_a_heartbeat_mends_it():
    without, with_it = (
        Tuner(visibility_timeout=30, job_seconds=45, heartbeat=beats, grace_period=60) for beats in (False, True)
    )
    assert all(f"<li>{problem}</li>" in without.advice.value for problem in without.problems())
    assert without.problems()
    assert with_it.advice.value == "<p>These numbers fit together.</p>"
    assert "heartbeat off" in without.text
    assert "heartbeat on" in with_it.text
