"""The instructor's guide keeps its word: minutes add up, and what it names is there, and says what the guide says."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import pytest

from labkit.__main__ import COMMANDS, main
from labkit.commands.parser import Parser

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
GUIDE = NOTEBOOKS / "instructors.md"
TEXT = GUIDE.read_text(encoding="utf-8")
PROMISED = {"90 minutes": 90, "Half a day": 4 * 60, "A full day": 8 * 60}
QUOTED = re.compile(r'"([^"]+)"')
CODE = re.compile(r"`([^`\n]+)`")
UNKNOWN = "of a notebook without any outputs, which tests/test_notebooks.py tells"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


class Notebook:
    """What the guide says of a notebook can be compared with this."""

    def __init__(self, name):
        cells = nbformat.read(NOTEBOOKS / "solutions" / name, as_version=4).cells
        self.minutes = int(re.search(r"\*\*Time:\*\* (\d+) minutes", cells[0].source).group(1))
        self.exercises, self.said = {"": []}, {"": ""}
        section = chapter = ""
        for cell in cells:
            if cell.cell_type == "markdown":
                for heading in re.finditer(r"^(##+) (.+)$", cell.source, re.MULTILINE):
                    section = heading[2]
                    chapter = section if heading[1] == "##" else chapter
                    self.exercises.setdefault(section, [])
                    self.said.setdefault(section, "")
                continue
            names = [tag[9:] for tag in cell.metadata.get("tags", []) if tag.startswith("exercise:")]
            outputs = [one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.outputs]
            for heading in {section, chapter}:  # a chapter has what its subsections have
                self.exercises[heading] += names
                self.said[heading] += "\n".join(outputs)


def notebooks_named(text):
    return re.findall(r"\]\(([^)]*\.ipynb)\)", text)


def part(text, heading):
    """A section of the guide, up to the next heading that is not below it."""
    level = heading.partition(" ")[0]
    after = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{2,{len(level)}}} ", after)[0]


def rows(text):
    """The rows of the first table."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def questions(text):
    """Number of each question, and its text."""
    found = re.split(r"\n### Question (\d+): .*\n", part(text, "## Questions for the room"))
    return dict(zip(map(int, found[1::2]), found[2::2], strict=True))


# ---- what can be wrong


def wrong_minutes(text):
    for name, promised in PROMISED.items():
        now = 0
        for start, minutes, *_ in rows(part(text, f"### {name}")):
            if start != f"{now // 60}:{now % 60:02}":
                yield f"{name}: a row begins at {start}, and the one before ends at minute {now}"
            now += int(minutes)
        if now != promised:
            yield f"{name}: {now} minutes, and {promised} are promised"


def wrong_stops(text):
    opened = [row[0] for row in rows(part(text, "## What to say at each stop"))]
    for name in PROMISED:
        for start, minutes, what, where in rows(part(text, f"### {name}")):
            for number in map(int, re.findall(r"Question (\d+)", what)):
                if number not in questions(text):
                    yield f"{name} {start}: there is no question {number}"
            if not where:
                continue
            (file,) = notebooks_named(where)
            notebook = Notebook(file)
            link, _, plan = where.partition(": ")
            exercises, sections = CODE.findall(plan), QUOTED.findall(plan)
            if link not in opened:
                yield f"{name} {start}: nothing to say at {link}"
            if plan.startswith("all"):
                offered = {name for names in notebook.exercises.values() for name in names}
                if set(exercises) != offered:
                    yield f"{name} {start}: all of {file} has the exercises {sorted(offered)}"
                if int(minutes) < notebook.minutes:
                    yield f"{name} {start}: {file} takes {notebook.minutes} minutes"
                continue
            missing = [section for section in sections if section not in notebook.exercises]
            if missing or not sections:
                yield f"{name} {start}: {file} has no section {missing}"
                continue
            offered = {name for section in sections for name in notebook.exercises[section]}
            for exercise in exercises:
                if exercise not in offered:
                    yield f"{name} {start}: {exercise} is in none of these sections of {file}"


def late_questions(text):
    """Questions that are asked when the room has seen the cell that settles them."""
    for name in PROMISED:
        seen = []
        for start, _, what, where in rows(part(text, f"### {name}")):
            for number in map(int, re.findall(r"Question (\d+)", what)):
                settled = re.search(r"\*\*Settle it:\*\* (.+)", questions(text)[number])[1]
                for file, plan in seen:
                    section = QUOTED.findall(settled)
                    if file in notebooks_named(settled) and (plan.startswith("all") or section[0] in plan):
                        yield f"{name} {start}: question {number} is settled already"
            seen += [(file, where.partition(": ")[2]) for file in notebooks_named(where)]


def wrong_questions(text):
    for number, question in questions(text).items():
        options = re.findall(r"^- ([A-D])\. \S", question, re.MULTILINE)
        right = re.findall(r"^- \*\*Right:\*\* ([A-D])\.$", question, re.MULTILINE)
        explained = re.findall(r"[A-D]", " ".join(re.findall(r"^- \*\*Why ([A-D, ]+):\*\*", question, re.MULTILINE)))
        if options != list("ABCD") or len(right) != 1 or sorted(explained + right) != options:
            yield f"question {number}: four options, one right, and each wrong one explained"
        settled = re.search(r"^- \*\*Settle it:\*\* (.+)$", question, re.MULTILINE)
        if settled is None:
            yield f"question {number}: nothing settles it"
            continue
        how, _, told = settled[1].partition(" It says ")
        answer, words = answer_of(how), CODE.findall(told)
        if answer is None:
            yield f"question {number}: {how} is nowhere"
        elif answer is UNKNOWN and words:
            continue
        elif not words or any(word not in answer for word in words):
            yield f"question {number}: {how} does not say {told}"


def answer_of(how):
    """What the cells of a section put out, or a command; None when there is no such thing."""
    if not how.startswith("`"):
        (file,), (section, *_) = notebooks_named(how), QUOTED.findall(how)
        if not (NOTEBOOKS / file).exists():
            return None
        said = Notebook(file).said
        return UNKNOWN if section in said and not any(said.values()) else said.get(section)
    command = shlex.split(CODE.match(how)[1])[3:]
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(command)
    return out.getvalue() if code == 0 else None


def wrong_commands(text):
    parser = Parser()
    commands = parser.add_subparsers(parser_class=Parser)
    for command in COMMANDS:
        command.add_to(commands)
    code = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    for line in [*code, *CODE.findall(BLOCK.sub("", text))]:
        for said in re.findall(r"python -m labkit ?([^&|`]*)", line):
            try:
                parser.parse_args(shlex.split(said))
            except SystemExit:
                yield f"python -m labkit {said}: no such command"


def wrong_links(text):
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        if not (NOTEBOOKS / target).exists():
            yield f"{target} is linked, and is not there"


CHECKS = [wrong_minutes, wrong_stops, late_questions, wrong_questions, wrong_commands, wrong_links]


# ---- the guide as it is


@pytest.mark.parametrize("check", CHECKS)
def test_the_guide_keeps_its_word(check):
    assert list(check(TEXT)) == []


def test_there_are_between_ten_and_fourteen_questions_in_order():
    assert 10 <= len(questions(TEXT)) <= 14
    assert list(questions(TEXT)) == list(range(1, len(questions(TEXT)) + 1))


def test_the_readme_leads_to_the_guide():
    assert "](notebooks/instructors.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_handout_fits_on_a_page():
    assert len(part(TEXT, "## The handout").split()) < 350


def test_learners_copies_have_no_answers_to_the_questions():
    assert 'notebooks/*.ipynb"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# ---- guides that would be wrong


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (wrong_minutes, "| 0:05 | 12 |", "| 0:05 | 13 |"),
        (wrong_minutes, "| 1:25 | 5 | Close", "| 1:25 | 15 | Close"),
        (wrong_stops, "| 0:22 | 28 |", "| 0:22 | 20 |"),
        (wrong_stops, '"2. Whose lock is it?"', '"2. Whose key is it?"'),
        (wrong_stops, "exercise `take_and_release`", "exercise `fenced_write`"),
        (wrong_stops, "exercise `send_once`", "no exercise"),
        (wrong_stops, "Question 5 |", "Question 55 |"),
        (late_questions, "Question 5 |", "Question 4 |"),
        (late_questions, "Question 11 |", "Question 6 |"),
        (wrong_stops, '| [02](02_be_the_scheduler.ipynb) | "You', '| 02 | "You'),
        (wrong_questions, "**Right:** B.", "**Right:** A."),
        (wrong_questions, "**Why D:**", "**Why C:**"),
        (wrong_questions, "**Settle it:**", "**Believe it:**"),
        (wrong_questions, '"2. The same, with cards". It', '"2. The same". It'),
        (wrong_questions, "It says `one pause: violated`", "It says `one pause: holds`"),
        (wrong_questions, "Held in all states: 'a mail", "Held in some states: 'a mail"),
        (wrong_questions, "cases P11`. It says", "cases P12`. It says"),
        (wrong_commands, "reset 03 FOLDER", "reset 03 --folder FOLDER"),
        (wrong_commands, "progress FOLDER --json", "standings FOLDER --json"),
        (wrong_links, "(points.md)", "(dots.md)"),
    ],
)
def test_a_guide_that_does_not_is_found_out(check, right, wrong):
    assert right in TEXT
    assert list(check(TEXT.replace(right, wrong, 1)))
