"""The checklist: nine points, answered by clicks, taken home as Markdown."""

import pytest

from labkit.errors import LabError
from labkit.incidents import CHECKLIST, Point
from labkit.widgets import Checklist
from labkit.widgets.checklist import forget
from tests.points import POINTS

POINT = CHECKLIST[0].name


@pytest.fixture(autouse=True)
def _new_kernel():
    forget()


def test_it_has_the_nine_points_of_the_second_incident():
    assert POINTS["B22"] == "the checklist of nine"
    assert len(CHECKLIST) == len({point.name for point in CHECKLIST}) == 9


def test_an_unanswered_list_is_the_same_on_every_run():
    assert Checklist().markdown == Checklist().markdown
    assert Checklist().markdown.count("| not answered |") == 9
    assert Checklist().markdown.count("- [ ] to find out") == 9


def test_a_click_answers_and_the_summary_follows():
    mine = Checklist()
    mine.buttons[POINT]["partly"].click()
    mine.notes[POINT].value = "mails only | stock not"
    assert f"| {POINT} | partly | mails only \\| stock not |" in mine.markdown
    assert f"- [ ] to finish: {POINT}" in mine.markdown
    assert "mails only" in mine.summary.value
    assert mine.buttons[POINT]["partly"].description == "✓ partly"
    assert mine.message.startswith("1 of 9 answered")


def test_what_is_there_is_nothing_to_do_and_what_is_missing_comes_first():
    mine = Checklist()
    for number, point in enumerate(CHECKLIST):
        mine.answer(point.name, ("yes", "not needed", "partly")[number % 3])
    mine.answer("Alerting", "no")
    to_do = mine.markdown.partition("## What to do")[2].strip().splitlines()
    assert to_do[0].startswith("- [ ] to build: Alerting")
    assert len(to_do) == 3
    for point in CHECKLIST:
        mine.answer(point.name, "yes")
    assert mine.markdown.endswith("Nothing is open.")


def test_a_list_that_is_made_again_has_its_answers():
    Checklist().answer(POINT, "no", "we have none")
    again = Checklist()
    assert again.notes[POINT].value == "we have none"
    assert f"| {POINT} | no | we have none |" in again.markdown
    assert "not answered" in Checklist(title="another").markdown


def test_a_note_alone_leaves_a_point_open():
    mine = Checklist()
    mine.notes[POINT].value = "ask Ani"
    assert f"| {POINT} | not answered | ask Ani |" in mine.markdown


@pytest.mark.parametrize(("point", "state"), [("no such", "yes"), (POINT, "maybe")])
def test_another_answer_is_refused_in_words(point, state):
    with pytest.raises(LabError, match="there are"):
        Checklist().answer(point, state)


def test_a_file_is_never_overwritten(tmp_path):
    mine = Checklist()
    mine.save(tmp_path / "list.md")
    with pytest.raises(LabError, match="stays as it is"):
        mine.save(tmp_path / "list.md")
    assert (tmp_path / "list.md").read_text(encoding="utf-8") == mine.markdown + "\n"


def test_points_of_your_own_are_possible():
    mine = Checklist([Point("Backups", "Are there any?", "restore one")], title="mine")
    assert "- [ ] to find out: Backups. Look at: restore one." in mine.markdown


def test_what_is_shown_without_a_kernel_names_every_point():
    assert all(point.question in Checklist().text for point in CHECKLIST)


def test_every_button_and_every_note_says_which_point_it_belongs_to():
    mine = Checklist()
    for point in CHECKLIST:
        assert point.name in mine.notes[point.name].tooltip
        assert all(point.name in each.tooltip for each in mine.buttons[point.name].values())
