"""The widgets, driven from Python as a front end drives them: by clicks and by values."""

import re
import threading

import pytest

from labkit import ScenarioError, explore, replay, run
from labkit.errors import LabError
from labkit.plots.lanes_svg import lanes_svg
from labkit.widgets import Browser, HereAndNow, Hints, Parsons, Prediction, Quiz, Stepper, Tuner, recap
from labkit.widgets.prediction import Recap, forget
from tests.pictures import assert_readable, texts
from tests.test_play import handle, two_handlers

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


def test_the_goal_that_is_reached_is_named_when_another_property_breaks_later():
    def scenario(lab):
        seen = lab.redis()
        lab.worker("A", lambda r: r.incr("n") and r.incr("n"), lab.redis())
        lab.always("below 1", lambda: int(seen.get("n") or 0) < 1)
        lab.always("below 2", lambda: int(seen.get("n") or 0) < 2)

    stepper = Stepper(scenario, "A A", breaks="below 1")
    assert stepper.message.endswith("Goal reached: 'below 1' is broken.")


def test_what_is_not_possible_has_its_button_disabled_and_the_reason_in_its_tooltip():
    stepper = Stepper(two_handlers, "A A A")
    assert stepper.buttons["A"].disabled
    assert "A has returned" in stepper.buttons["A"].tooltip
    assert not stepper.buttons["B"].disabled


def test_undo_redo_and_reset_lead_back_and_again():
    stepper = Stepper(two_handlers, "A B A")
    stepper.undo()
    assert str(stepper.play.schedule) == "A B"
    assert stepper.box.value == "A B"
    stepper.redo()
    assert str(stepper.play.schedule) == "A B A"
    stepper.reset()
    assert not stepper.play.schedule
    assert stepper._undo.disabled
    assert not stepper._redo.disabled


def test_the_code_the_current_line_the_variables_and_the_keys_are_shown():
    stepper = Stepper(two_handlers, "A A")
    shown = stepper.scene.value
    assert re.search(r'lk-now" aria-current=step>▶ \d+ [^<]*mail.send\(&quot;order-1&quot;\)', shown)
    assert '<td class="lk-mono">30 s left</td>' in shown
    assert "✓ at most one mail: holds so far" in shown
    assert 'aria-label="Lane diagram of 2 steps' in stepper.picture.value


def test_there_is_a_button_for_each_fault_within_the_budgets_and_for_no_other():
    assert set(Stepper(two_handlers).buttons) == {"A", "B", "clock"}
    faults = {"crash:A", "crash:B", "lose:A", "lose:B"}
    assert set(Stepper(two_handlers, crashes=1, lost_replies=1).buttons) == {"A", "B", "clock"} | faults


def test_a_spared_worker_has_no_button_for_its_crash():
    def scenario(lab):
        lab.worker("A", handle, lab.redis(), lab.mail)
        lab.worker("R", handle, lab.redis(), lab.mail, spared=True)

    assert set(Stepper(scenario, crashes=1).buttons) == {"A", "R", "clock", "crash:A"}


def test_a_thread_that_appears_gets_a_button_after_the_others():
    def work(r):
        r.set("key", 1)
        thread = threading.Thread(target=lambda: r.set("beat", 1), name="beat")
        thread.start()
        thread.join()

    def scenario(lab):
        lab.worker("A", work, lab.redis())

    stepper = Stepper(scenario)
    assert list(stepper.buttons) == ["A", "clock"]
    stepper.choose("A")
    assert list(stepper.buttons) == ["A", "clock", "A/beat"]


def test_a_schedule_that_cannot_be_is_refused_in_words_and_leaves_the_state():
    stepper = Stepper(two_handlers, "A")
    before = stepper.scene.value
    for pasted in ("A A A A", "A ?", "crash:A"):
        stepper.paste(pasted)
        assert 'role="alert"' in stepper.status.value
        assert stepper.scene.value == before
    stepper.choose("B")
    assert 'role="status"' in stepper.status.value


def test_an_error_of_a_property_is_shown_in_the_widget():
    def scenario(lab):
        seen = lab.redis()
        lab.worker("A", lambda r: r.set("key", "value"), lab.redis())
        lab.always("a number", lambda: int(seen.get("key") or 1) > 0)

    stepper = Stepper(scenario)
    stepper.choose("A")
    assert "property 'a number' raised ValueError" in stepper.message
    assert 'role="alert"' in stepper.status.value
    assert not stepper.play.schedule


def test_an_error_that_is_no_complaint_of_the_lab_is_shown_with_its_line():
    stepper = Stepper(two_handlers)
    stepper.guarded(lambda: 1 / 0)()
    assert stepper.message.startswith("ZeroDivisionError: division by zero (<lambda>, line ")


@pytest.mark.parametrize(
    ("said", "shown"), [("no step is left", "no step is left."), ("Mend it.", "Mend it."), ("Who?", "Who?")]
)
def test_a_complaint_of_the_lab_is_one_sentence(said, shown):
    def complain():
        raise LabError(said)

    stepper = Stepper(two_handlers)
    stepper.guarded(complain)()
    assert stepper.message == shown


def test_words_of_a_learner_are_no_markup():
    def scenario(lab):
        lab.worker("A", lambda r: r.set("<b>k</b>", "<i>"), lab.redis())
        lab.always("<u>", lambda: True)

    stepper = Stepper(scenario, "A", goal="<s>")
    for part in (stepper.scene.value, stepper.picture.value, stepper.status.value, stepper.static_html):
        assert not re.search("<[bius]>", part)


def test_a_counterexample_is_stepped_through_from_its_beginning_within_the_budgets_of_its_search():
    verdict = explore(two_handlers, crashes=1)
    stepper = Stepper.of(verdict)
    assert not stepper.play.schedule
    assert stepper.play.ahead == verdict.counterexample.schedule
    assert "crash:A" in stepper.buttons
    while stepper.play.ahead:
        stepper.redo()
    assert stepper.play.trace == verdict.counterexample


def test_a_trace_of_a_run_or_a_replay_is_stepped_through_too():
    for trace in (run(two_handlers, seed=3), replay(two_handlers, "A A crash:A B")):
        stepper = Stepper.of(trace)
        while stepper.play.ahead:
            stepper.redo()
        assert stepper.play.trace == trace


def test_a_verdict_without_counterexample_cannot_be_stepped_through_and_says_so():
    def calm(lab):
        lab.worker("A", handle, lab.redis(), lab.mail)
        lab.always(BREAKS, lambda: lab.mail.count("order-1") <= 1)

    with pytest.raises(ScenarioError, match="no counterexample"):
        Stepper.of(explore(calm))
    assert "There is no counterexample" in Browser(explore(calm)).message


def test_without_a_goal_nothing_is_reached_and_with_one_any_property_counts():
    free = Stepper(two_handlers, "A B A B A B")
    assert not free.is_reached
    assert "This breaks 'at most one mail'" in free.message
    assert Stepper(two_handlers, "A B A B A B", goal="Break something.").is_reached
    other = Stepper(two_handlers, "A B A B A B", breaks="the mail went out")
    assert not other.is_reached
    assert "The goal is not reached" not in Stepper(two_handlers, "A B", breaks=BREAKS).message


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


def test_cards_move_up_and_down_and_back():
    cards = Parsons(two_handlers, breaks=BREAKS)
    first, second = str(cards.cards[0]), str(cards.cards[1])
    cards.pool[0].click()
    cards.pool[1].click()
    assert cards.picked == 1
    assert cards.pool[0].disabled
    cards.up.click()
    assert [str(cards.cards[place]) for place in cards.order] == [second, first]
    assert cards.picked == 0
    cards.down.click()
    cards.slots[0].click()
    cards.remove.click()
    assert [str(cards.cards[place]) for place in cards.order] == [second]
    assert not cards.pool[0].disabled
    cards.clear.click()
    assert not cards.order
    assert cards.try_it.disabled


def test_a_card_that_does_something_else_in_this_order_is_named():
    cards = Parsons(two_handlers, breaks=BREAKS)
    texts = [str(card) for card in cards.cards]
    cards.put([texts.index("A: mail.send(order-1)")])
    assert not cards.attempt()
    assert cards.message == "Number 1: in this order A does something else: GET order:1:mailed -> nil."


def test_an_order_that_goes_well_is_no_solution():
    cards = Parsons(two_handlers, "A A A B", breaks=BREAKS)
    texts = [str(card) for card in cards.cards]
    order = [
        "A: GET order:1:mailed",
        "A: SET order:1:mailed yes EX 30",
        "A: mail.send(order-1)",
        "B: GET order:1:mailed",
    ]
    cards.put([texts.index(text) for text in order])
    assert not cards.attempt()
    assert cards.message.startswith("All 4 steps are possible, and 'at most one mail' still holds")


def test_cards_do_not_lie_in_an_order_that_solves_it():
    cards = Parsons(two_handlers, breaks=BREAKS)
    cards.put(range(len(cards.cards)))
    assert not cards.attempt()


def test_a_prediction_that_was_compared_stays(capsys):
    guess = Prediction("Which?", choices=["twice", "lost"])
    guess.answer("twice")
    guess.compare("lost")
    with pytest.raises(LabError, match="your prediction stays: twice"):
        guess.answer("lost")
    again = Prediction("Which?", choices=["twice", "lost"])
    assert again.said == "twice"
    assert again.message == "you said twice, it was lost"


@pytest.mark.parametrize(
    ("options", "said", "why"),
    [
        ({}, "ten", "'ten' is no number"),
        ({}, " ", "Write your prediction"),
        ({}, "nan", "'nan' is no number"),
        ({}, "1e999", "'1e999' is no number"),
        ({}, "2,5", "'2,5' is no number; write one such as 10, 2.5 or 1,000"),
        ({}, "1,0000", "'1,0000' is no number"),
        ({"choices": ["twice", "lost"]}, "thrice", "not among the choices"),
    ],
)
def test_what_is_no_answer_to_the_question_is_refused_in_words(options, said, why):
    with pytest.raises(LabError, match=why):
        Prediction("What?", **options).answer(said)


def test_numbers_are_read_as_people_write_them():
    guess = Prediction("How many?")
    for written, meant in (("1,000", 1000), ("12,345,678.5", 12_345_678.5), ("2.5", 2.5), ("30 %", 30), ("7", 7)):
        guess.answer(written)
        assert guess.value == meant


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


@pytest.mark.parametrize(
    ("number", "answer", "why"),
    [
        (0, "order", "no question 0; there are 1"),
        (2, "order", "no question 2"),
        (1, "luck", "'luck' is no answer to question 1"),
    ],
)
def test_an_answer_that_cannot_be_chosen_is_refused_in_words_and_is_no_try(number, answer, why):
    quiz = Quiz([("Why?", {"chance": "No.", "order": "Yes."}, "order")])
    with pytest.raises(LabError, match=why):
        quiz.answer(number, answer)
    assert quiz.tries == [[]]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Prediction(" "), "asks a question"),
        (lambda: Prediction(None), "asks a question, in words, not None"),
        (lambda: Prediction("Which?", choices="twice"), "choices are two texts or more, not 'twice'"),
        (lambda: Prediction("Which?", choices=["twice"]), "choices are two texts or more"),
        (lambda: Prediction("Which?", choices=["twice", "twice"]), "choices are two texts or more"),
        (lambda: Prediction("Which?", choices=["twice", 2, "once"]), "choices are two texts or more"),
        (lambda: Quiz([]), "at least one question"),
        (lambda: Quiz([("Why?", ["chance", "order"], "order")]), "each answer to 'Why\\?' needs its explanation"),
        (lambda: Tuner(visibility_timeout=float("nan")), "visibility_timeout is nan; the slider goes from 10 to 180"),
        (lambda: Tuner(visibility_timeout="30"), "visibility_timeout is '30'; the slider goes"),
        (lambda: Tuner(job_seconds=45.5), "job_seconds is 45.5; the slider goes from 5 to 120 seconds, whole ones"),
        (lambda: Tuner(heartbeat="no"), "heartbeat is True or False, not 'no'"),
        (lambda: Stepper.of("A B"), "something to step through, not str"),
        (lambda: Browser(None), "what `explore` returns, a verdict, not NoneType"),
        (lambda: Browser(two_handlers), "a verdict, not function"),
    ],
)
def test_a_widget_about_nothing_is_refused(make, why):
    with pytest.raises((ValueError, TypeError), match=why):
        make()


def test_large_numbers_are_told_apart(capsys):
    guess = Prediction("How many?")
    guess.answer("12,345,678,901")
    guess.compare(12_345_678_902)
    assert capsys.readouterr().out == "you said 12,345,678,901, it was 12,345,678,902\n"
    assert not guess.is_right


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
    one, other = (
        {kind: re.sub(r"lk-(view|instead)-\d+", "", text) for kind, text in make()._repr_mimebundle_().items()}
        for _ in range(2)
    )
    assert one == other
    assert set(one) == {"text/plain", "text/html"}
    assert "0x" not in one["text/plain"]


def test_the_view_and_the_text_are_outputs_of_their_own_so_that_the_text_is_left_when_the_kernel_is_gone(monkeypatch):
    shown = []
    monkeypatch.setattr("labkit.widgets.shown.display", lambda bundle, raw: shown.append(set(bundle)))
    Hints("look")._ipython_display_()
    assert shown == [{VIEW}, {"text/plain", "text/html"}]


def test_a_property_that_nobody_states_cannot_be_the_goal():
    with pytest.raises(ScenarioError, match="states no property 'nonsense'"):
        Stepper(two_handlers, breaks="nonsense")
    with pytest.raises(ScenarioError, match="states no property 'nonsense'"):
        Parsons(two_handlers, breaks="nonsense")


def test_who_predicts_nothing_and_who_says_nothing_are_told_apart():
    said, unsaid = Prediction("What goes wrong?", choices=["twice", "nothing"]), Prediction("How often?")
    said.answer("nothing")
    said.compare("nothing")
    unsaid.compare(3)
    recap = Recap([said, unsaid])
    assert "you said: nothing; it did: nothing" in repr(recap)
    assert "no prediction; it did: 3" in repr(recap)
    assert repr(recap).endswith("You predicted 1 of 2, and 1 came true.")
    assert '<td style="text-align:left">(no prediction)</td>' in recap._repr_html_()


def test_an_empty_recap_says_so():
    assert repr(Recap([])) == "No prediction has been compared yet."


# ---- what learners write


def broken_by_the_set_up(lab):
    lab.worker("A", lambda r: r.incr("n"), lab.redis())
    seen = lab.redis()
    seen.set("n", 5)
    lab.always("n is zero", lambda: seen.get("n") == b"0")


def test_what_the_set_up_breaks_is_nobodys_success():
    verdict = explore(broken_by_the_set_up)
    stepper = Stepper(broken_by_the_set_up, breaks="n is zero")
    assert stepper.message == "The set-up breaks 'n is zero', before anybody steps."
    stepper.choose("A")
    assert "yours" not in stepper.result.value
    assert Browser(verdict).message == "n is zero: broken by the set-up, before anybody steps."
    with pytest.raises(ScenarioError, match="nothing to put in order: the set-up breaks 'n is zero'"):
        Parsons(broken_by_the_set_up, breaks="n is zero")
    picture = verdict.counterexample.lanes()
    assert {"set-up", "✗ breaks: n is zero"} <= set(texts(picture))
    assert {"set-up", "✗ breaks: n is zero"} <= set(re.findall(">([^<>]+)</text>", lanes_svg(verdict.counterexample)))
    assert_readable(picture)


def test_a_long_value_is_cut_in_what_is_said():
    def scenario(lab):
        for name in "AB":
            lab.worker(name, lambda r: (r.set("k", "z" * 5_000), r.get("k")), lab.redis())
        lab.at_end("it never ends", lambda: False)

    stepper = Stepper(scenario, "A A", breaks="it never ends")
    trace = replay(scenario, "A A")
    for told in (stepper.message, stepper.text, trace.lanes().alt, stepper.play.workers[1].text):
        assert len(told) < 1_500
    assert max(len(card.description) for card in Parsons(scenario, "A A B B", "it never ends").pool) < 140


def test_a_card_is_added_once_although_it_is_clicked_twice():
    cards = Parsons(two_handlers, breaks=BREAKS)
    cards.pool[0].click()
    cards.pool[0].click()
    assert cards.order == [0]
    for order in ([0, 0], [-1], [99]):
        with pytest.raises(LabError, match="names each card once"):
            cards.put(order)
    assert cards.order == [0]
    with pytest.raises(ScenarioError, match="give the steps that break it"):
        Parsons(two_handlers, [], breaks=BREAKS)


def test_what_differs_is_shown_as_a_notebook_shows_it():
    trace = run(two_handlers)
    assert "<img" in HereAndNow(trace).box.value
    assert "<svg" not in HereAndNow("<svg>").box.value


def test_the_picture_of_a_stepper_is_scrolled_through_before_it_is_too_small_to_be_read():
    picture = Stepper(two_handlers, "A B").picture
    width, least = (float(re.search(rf"[; \"]{name}:(\d+)px", picture.value)[1]) for name in ("width", "min-width"))
    assert least == pytest.approx(0.7 * width, abs=1)
