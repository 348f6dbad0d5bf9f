"""Every widget in a real JupyterLab, in a real browser: by clicks and by keyboard."""

import pytest

from labkit.widgets import Hints
from tests.real_browser import CHROMIUM, chromium, jupyterlab, opened, run_all, run_cell
from tests.widget_notebook import number_of, write_notebook

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (system package `chromium`)")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with the notebook, run from top to bottom once; each test has widgets of its own in it."""
    root = tmp_path_factory.mktemp("widgets")
    write_notebook(root / "widgets.ipynb")
    with jupyterlab(root) as url, chromium() as page:
        page.set_default_timeout(15_000)
        opened(page, url, "widgets.ipynb")
        answer = run_all(page)
        assert answer["errors"] == []
        yield page


def test_the_text_for_where_no_view_can_be_is_hidden_where_one_is(page):
    for place in range(page.locator(".lk-instead").count()):
        page.locator(".lk-instead").nth(place).wait_for(state="hidden")


def said(widget, text):
    """Wait until a widget says something."""
    widget.locator(".lk-status").filter(has_text=text).first.wait_for()


def press(widget, *labels):
    for label in labels:
        widget.get_by_role("button", name=label, exact=True).click()


@pytest.fixture
def stepper(page):
    """The first stepper, at its beginning."""
    found = page.locator(".lk-stepper").nth(0)
    found.scroll_into_view_if_needed()
    if found.get_by_role("button", name="⟲ reset").is_enabled():
        press(found, "⟲ reset")
    said(found, "Nothing has happened yet")
    return found


def test_a_scenario_is_stepped_to_a_violation_by_clicks(stepper):
    for number, label in enumerate(["● A", "■ B", "● A", "■ B", "● A", "■ B"], 1):
        press(stepper, label)
        said(stepper, f"Step {number},")
    said(stepper, "Goal reached")
    stepper.get_by_text("yours: 6 steps; the shortest: 6 steps").wait_for()
    stepper.locator("svg[aria-label^='Lane diagram of 6 steps']").wait_for()
    assert stepper.get_by_role("textbox").input_value() == "A B A B A B"


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_a_scenario_is_stepped_to_a_violation_by_keyboard(page, stepper, key):
    first, second = (stepper.get_by_role("button", name=label, exact=True) for label in ("● A", "■ B"))
    first.focus()
    for number in range(1, 6, 2):
        page.keyboard.press(key)
        said(stepper, f"Step {number},")
        page.keyboard.press("Tab")
        assert second.evaluate("node => node === document.activeElement")
        page.keyboard.press(key)
        said(stepper, f"Step {number + 1},")
        page.keyboard.press("Shift+Tab")
    said(stepper, "Goal reached")


def test_the_code_of_three_workers_has_room(stepper):
    third = """grid => {
        grid.style.width = "930px";  // as in a window of 1100
        const copy = grid.appendChild(grid.firstElementChild.cloneNode(true));
        const widths = [...grid.children].map(card => card.offsetWidth);
        copy.remove();
        grid.style.width = "";
        return widths;
    }"""
    widths = stepper.locator(".lk-grid").first.evaluate(third)
    assert len(widths) == 3
    assert min(widths) >= 380


def test_undo_takes_the_last_step_back(stepper):
    press(stepper, "● A")
    said(stepper, "Step 1,")
    press(stepper, "■ B")
    said(stepper, "Step 2,")
    press(stepper, "↶ undo")
    said(stepper, "Step 1,")
    assert stepper.get_by_role("textbox").input_value() == "A"


def test_a_schedule_is_pasted_and_one_that_cannot_be_is_refused_in_words(stepper):
    stepper.get_by_role("textbox").fill("A B clock crash:A")
    press(stepper, "load")
    said(stepper, "clock`, is not possible")
    stepper.get_by_role("textbox").fill("A B crash:A B B")
    press(stepper, "load")
    said(stepper, "Step 5,")


def test_a_prediction_is_made_and_then_compared_and_recapped(page):
    number = page.locator(".lk-prediction").nth(3)
    number.get_by_role("textbox").fill("three")
    press(number, "record my prediction")
    said(number, "'three' is no number")
    number.get_by_role("textbox").fill("3")
    press(number, "record my prediction")
    said(number, "Your prediction is kept: 3 choices")
    run_cell(page, number_of("look"))
    said(number, "you said 3, it was 4 choices")
    assert number.get_by_role("button", name="record my prediction").is_disabled()
    run_cell(page, number_of("recap"))
    page.get_by_text("You predicted 1 of 4, and 0 came true.").wait_for()


def test_a_prediction_that_comes_late_is_compared_at_once(page):
    choice = page.locator(".lk-prediction").nth(1)
    said(choice, "No prediction yet")
    press(choice, "lost")
    said(choice, "you said lost, it was twice")


def test_cards_are_put_in_order_by_keyboard_and_the_lab_confirms_it(page):
    cards = page.locator(".lk-parsons")

    def press_key(label):
        cards.get_by_role("button", name=label, exact=True).focus()
        page.keyboard.press("Space")

    for what in ("GET order:1:mailed", "SET order:1:mailed yes EX 30", "mail.send(order-1)"):
        for who in ("● A", "■ B"):
            press_key(f"{who}: {what}")
            said(cards, f"{who[-1]}: {what} is number")
    press_key("▲ up")
    said(cards, "is now number 5")
    press_key("try this order")
    said(cards, "That is it: after 6 steps, 'at most one mail' is broken.")
    cards.locator("svg[aria-label^='Lane diagram']").wait_for()


def test_moving_a_slider_changes_the_verdict_and_the_picture(page):
    tuner = page.locator(".lk-tuner")
    picture = tuner.locator("img")
    before = picture.get_attribute("src")
    said(tuner, "violated")
    tuner.locator(".noUi-handle").first.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    said(tuner, "holds in all")
    assert picture.get_attribute("src") != before


def test_hints_open_and_a_wrong_answer_is_explained(page):
    hints, quiz = page.locator(".lk-hints"), page.locator(".lk-quiz")
    press(hints, "1. nudge")
    hints.get_by_text("What did each worker see?").wait_for()
    press(quiz, "chance")
    quiz.get_by_text("No: this schedule does it every time.").wait_for()


def test_a_counterexample_is_stepped_through(page):
    browser = page.locator(".lk-browser")
    browser.locator("select").select_option(index=1)
    said(browser, "a mail went out: broken after")
    press(browser, "↷ redo")
    said(browser, "Step 1,")


def test_an_answer_of_an_exercise_opens_its_execution_in_a_stepper(page):
    answer = page.locator(".lk-check")
    press(answer, "Step through it")
    press(answer, "↷ redo")
    said(answer.locator(".lk-stepper"), "Step 1,")


def test_an_error_in_a_handler_is_shown_in_the_widget_and_the_next_click_works(page):
    broken = page.locator(".lk-stepper").last
    press(broken, "● A")
    alert = broken.get_by_role("alert")
    alert.wait_for()
    assert "property 'the value is a number' raised ValueError" in alert.inner_text()


def test_without_its_kernel_a_widget_still_shows_what_it_showed(page, stepper):
    press(stepper, "● A")
    said(stepper, "Step 1,")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
    assert "GET order:1:mailed" in stepper.inner_text()
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.goto(page.url.partition("?")[0] + "?reset")
    instead = page.locator(".lk-instead").filter(has_text="Stepper: you are the scheduler.").first
    instead.wait_for()
    assert "you can choose: A, B, crash:A, crash:B" in instead.inner_text()
    answer = page.locator(".lk-instead").filter(has_text="Which worker still trusted").first
    answer.wait_for()
    assert "Step through it" not in answer.inner_text()


def test_of_two_notebooks_in_a_page_each_hides_the_text_of_its_own_widgets_only(page):
    text = Hints("look")._repr_mimebundle_()["text/html"]
    view = text.partition("lk-instead-")[2].partition('"')[0]
    live = f'<div class="jp-OutputArea"><div class="lk-view-{view}">view</div>{text}</div>'
    other = page.context.browser.new_context()
    both = other.new_page()
    both.set_content(f'{live}<div class="jp-OutputArea">{text}</div>')
    hidden, shown = both.locator(".lk-instead").all()
    shown.wait_for()
    assert shown.is_visible()
    assert not hidden.is_visible()
    both.set_content(f'<div class="lk-view-{view}">view</div>{text}')  # where nothing is called as in JupyterLab
    both.locator(".lk-instead").wait_for(state="hidden")
    other.close()
