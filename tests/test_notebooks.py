"""The notebooks as files. (That they run and print what is stored is nbval's to say.)"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labkit.exercises import all_exercises
from tests import points
from tests.refresh_notebooks import NOTEBOOKS, SOURCES, is_quiz, made_from

ROOT = Path(__file__).parent.parent
SOURCE_PATHS = sorted(SOURCES.glob("*.ipynb"))
PATHS = [*sorted(NOTEBOOKS.glob("*.ipynb")), *SOURCE_PATHS]
PUBLIC = re.compile(
    r"labkit(\.(exercises|widgets|plots(\.\w+)?|locks|queues|workers|idempotency|incidents|cases|observe))?"
)
ACTED_ON = re.compile(r"# change me|\b(Prediction|Stepper|Parsons|Tuner|Quiz|Browser|Checklist)\(|\.check\(")
SHORT = {"00_start_here"}  # ten minutes: fewer cells will do
WIDGETS = importlib.util.find_spec("labkit.widgets") is not None
all_written = pytest.mark.skipif(len(SOURCE_PATHS) <= points.LAST_NOTEBOOK, reason="not all notebooks are written yet")
needs_widgets = pytest.mark.skipif(not WIDGETS, reason="labkit.widgets is not there yet")


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


def cells(path, kind=None):
    return [cell for cell in nbformat.read(path, as_version=4).cells if kind in (None, cell.cell_type)]


def code_cells(path):
    return cells(path, "code")


def code(path):
    return "\n".join(cell.source for cell in code_cells(path))


def tags(cell):
    return cell.metadata.get("tags", [])


def is_imports(cell):
    return all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.parse(cell.source).body)


def html_outputs(path):
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    return [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]


@pytest.fixture(params=PATHS, ids=name_of)
def notebook(request):
    return request.param


@pytest.fixture(params=SOURCE_PATHS, ids=name_of)
def source(request):
    return request.param


# ---- made from one source


def test_there_are_notebooks():
    assert SOURCE_PATHS


def test_each_notebook_has_a_source_and_each_source_a_notebook():
    assert [path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))] == [path.name for path in SOURCE_PATHS]


@pytest.mark.parametrize("solved", [True, False], ids=["solutions", "starters"])
def test_a_notebook_is_what_its_source_makes_of_it(source, solved):
    made = made_from(nbformat.read(source, as_version=4), solved=solved)
    stored = cells(source if solved else NOTEBOOKS / source.name)
    assert [(cell.id, cell.source, tags(cell)) for cell in made.cells] == [
        (cell.id, cell.source, tags(cell)) for cell in stored
    ], "run python tests/refresh_notebooks.py"


def test_a_starter_is_put_in_place_of_a_solution_and_solution_cells_are_left_out():
    exercise = all_exercises()["complete_once"]
    source = nbformat.v4.new_notebook()
    source.cells = [
        nbformat.v4.new_code_cell("", metadata={"tags": ["exercise:complete_once", "covers:A9"]}),
        nbformat.v4.new_markdown_cell("why", metadata={"tags": ["solution"]}),
        nbformat.v4.new_code_cell("1 + 1"),
    ]
    learners, solutions = (made_from(source, solved=solved).cells for solved in (False, True))
    assert [cell.source for cell in learners] == [exercise.cell(exercise.starting_point), "1 + 1"]
    assert [cell.source for cell in solutions] == [exercise.cell(exercise.reference), "why", "1 + 1"]
    assert [cell.id for cell in learners] == ["cell-00", "cell-01"]


def exercises_used():
    found = [tag for path in SOURCE_PATHS for cell in cells(path) for tag in tags(cell) if tag.startswith("exercise:")]
    return [tag.removeprefix("exercise:") for tag in found]


def test_no_exercise_is_in_two_notebooks_and_each_exists():
    assert len(exercises_used()) == len(set(exercises_used()))
    assert set(exercises_used()) <= set(all_exercises())


@all_written
def test_each_exercise_is_in_a_notebook():
    assert set(exercises_used()) == set(all_exercises())


# ---- what is stored


def test_execution_counts_run_from_one_since_nbval_compares_nothing_otherwise(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_what_is_stored_depends_on_no_machine(notebook):
    stored = nbformat.read(notebook, as_version=4)
    assert stored.metadata.kernelspec.name == "python3"
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    text = notebook.read_text(encoding="utf-8")
    for trace in ("/tmp/", "/home/", "site-packages", "widget-view", "ipykernel_"):
        assert trace not in text
    assert not re.search(r"seconds=\d+\.\d", text)  # how long a search took; a world may say `seconds=45`


def test_no_cell_ends_in_an_error_or_a_warning(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"


def test_the_pictures_are_stored_with_alternative_text(notebook):
    pictures = [part for text in html_outputs(notebook) for part in re.findall(r"<img[^>]*>", text)]
    assert pictures
    for picture in pictures:
        assert re.search(r'alt="[^"]{40,}"', picture), picture[-300:]


def test_pictures_in_the_text_have_alternative_text(notebook):
    for cell in cells(notebook, "markdown"):
        assert "![](" not in cell.source


# ---- how a notebook is written


def test_notebooks_import_public_names_only(notebook):
    for cell in code_cells(notebook):
        for module in re.findall(r"^\s*(?:from|import)\s+(labkit[\w.]*)", cell.source, flags=re.M):
            assert PUBLIC.fullmatch(module)


def test_code_cells_are_short(notebook):
    for cell in code_cells(notebook):
        read = [line for line in cell.source.splitlines() if line.strip()]
        assert is_quiz(cell) or is_imports(cell) or len(read) <= 16, cell.source


def test_a_quiz_is_folded_away_since_the_right_answers_stand_in_it(notebook):
    for cell in code_cells(notebook):
        assert cell.metadata.get("jupyter", {}).get("source_hidden", False) == is_quiz(cell)


def test_a_notebook_is_neither_a_leaflet_nor_a_book(notebook):
    fewest = 15 if notebook.stem in SHORT else 30
    learners = [cell for cell in cells(notebook) if "solution" not in tags(cell)]
    assert fewest <= len(learners) <= 45


def test_there_is_more_prose_than_code(notebook):
    prose = sum(len(cell.source) for cell in cells(notebook, "markdown"))
    assert prose > sum(len(cell.source) for cell in code_cells(notebook) if not is_quiz(cell))


def test_the_head_says_what_one_will_be_able_to_do_and_how_long_it_takes(notebook):
    head = cells(notebook)[0]
    assert head.cell_type == "markdown"
    assert head.source.startswith("# ")
    assert re.search(r"\*\*Time:\*\* \d+ minutes", head.source)
    assert "**You will be able to:**" in head.source


@needs_widgets
def test_a_notebook_asks_for_predictions_and_compares_each(notebook):
    predicted = re.findall(r"^(\w+) = Prediction\(", code(notebook), flags=re.M)
    assert predicted
    for name in predicted:
        assert f"{name}.compare(" in code(notebook)


@needs_widgets
def test_a_notebook_ends_with_a_recap_a_quiz_and_the_words_met(notebook):
    assert "recap()" in code(notebook)
    assert "Quiz(" in code(notebook)
    assert "**Words met here**" in "\n".join(cell.source for cell in cells(notebook, "markdown"))


def test_the_readme_lists_every_notebook_with_its_title_and_its_minutes(source):
    head = cells(source)[0].source
    title = head.splitlines()[0].removeprefix("# ")
    minutes = re.search(r"\*\*Time:\*\* (\d+) minutes", head).group(1)
    number = source.stem.partition("_")[0]
    row = rf"\| \[{number} {re.escape(title)}\]\(notebooks/{source.name}\) \|.*\| {minutes} \|"
    assert re.search(row, (ROOT / "README.md").read_text(encoding="utf-8"))


# ---- what is covered


def test_a_cell_that_covers_a_point_is_one_that_a_learner_acts_on(source):
    for cell in cells(source):
        covering = [tag for tag in tags(cell) if tag.startswith("covers:")]
        assert all(map(points.is_point, covering)), covering
        if covering:
            assert cell.cell_type == "code"
            assert ACTED_ON.search(cell.source), cell.source


def test_the_table_of_points_says_what_the_tags_say():
    assert points.TABLE.read_text(encoding="utf-8") == points.table(points.covered()), (
        "run python tests/refresh_notebooks.py --points"
    )


def test_the_table_follows_the_tags(tmp_path):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("x", metadata={"tags": ["covers:B9", "covers:A1"]})]
    nbformat.write(notebook, tmp_path / "07_some.ipynb")
    text = points.table(points.covered(tmp_path))
    assert "| B9 | root cause: a lock that checks, then sets | [07](07_some.ipynb) |" in text
    assert "2 of 37 points" in text


@all_written
def test_every_point_is_covered():
    assert not [point for point, places in points.covered().items() if not places]


# ---- the check of what is stored


def test_a_changed_output_is_noticed_by_the_check(tmp_path):
    """The comparison can fail: another stored text is a difference, other picture bytes are none."""
    source = SOURCES / "01_two_workers_one_job.ipynb"
    small = nbformat.read(source, as_version=4)
    small.cells = [cell for cell in small.cells if cell.cell_type == "code"][:5]
    small = made_from(small, solved=True)
    for number, cell in enumerate(small.cells, 1):
        cell.execution_count = number
    path = tmp_path / "small.ipynb"

    def check():
        nbformat.write(small, path)
        command = [sys.executable, str(ROOT / "tests" / "refresh_notebooks.py"), "--check", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    small.cells[-1].outputs = [
        nbformat.v4.new_output("stream", text="     0 s A: job 1 completed\n     1 s API: 200 done\n")
    ]
    assert check().returncode == 0
    small.cells[-1].outputs[0].text = "something else\n"
    answer = check()
    assert answer.returncode == 1
    assert "something else" in answer.stdout
