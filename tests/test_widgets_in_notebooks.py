"""A notebook that uses every widget, as it is stored: the same each time, and strict nbval accepts it."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.refresh_notebooks import executed
from tests.widget_notebook import CELLS, number_of, write_notebook

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The notebook as it is stored, with its outputs."""
    path = tmp_path_factory.mktemp("stored") / "widgets.ipynb"
    write_notebook(path)
    nbformat.write(executed(nbformat.read(path, as_version=4), path.parent), path)
    return path


def nbval(path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command += ["--nbval", "--nbval-sanitize-with", str(ROOT / "tests" / "nbval_sanitize.cfg"), str(path)]
    home = {**os.environ, "PYTHONPATH": str(ROOT), "LABKIT_PROGRESS": "0"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=home)


def test_strict_nbval_accepts_it_and_notices_another_text(stored, tmp_path):
    answer = nbval(stored)
    assert answer.returncode == 0, answer.stdout[-3000:]
    assert f"{len(CELLS)} passed" in answer.stdout
    changed = nbformat.read(stored, as_version=4)
    changed.cells[number_of("tuner") - 1].outputs[0].data["text/plain"] += "another word"
    path = tmp_path / "changed.ipynb"
    nbformat.write(changed, path)
    assert "1 failed" in nbval(path).stdout


def test_what_is_stored_has_text_and_html_for_each_widget_and_no_view(stored):
    notebook = nbformat.read(stored, as_version=4)
    assert "widget-view" not in stored.read_text()
    for name in (
        "number",
        "choice",
        "words",
        "stepper",
        "parsons",
        "tuner",
        "hints",
        "quiz",
        "browser",
        "error",
        "answer",
    ):
        (output,) = notebook.cells[number_of(name) - 1].outputs
        assert set(output.data) == {"text/plain", "text/html"}


def test_unanswered_predictions_say_so(stored):
    notebook = nbformat.read(stored, as_version=4)
    (output,) = notebook.cells[number_of("search") - 1].outputs
    assert output.data["text/plain"] == "you made no prediction; it was 6 steps"
    assert not notebook.cells[number_of("look") - 1].outputs
