"""The notebooks as files. (That they run and print what is stored is nbval's to say.)"""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PUBLIC = re.compile(r"labkit(\.exercises)?")


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_execution_counts_run_from_one_since_nbval_compares_nothing_otherwise(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_what_is_stored_depends_on_no_machine(notebook):
    stored = nbformat.read(notebook, as_version=4)
    assert stored.metadata.kernelspec.name == "python3"
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    text = notebook.read_text()
    for trace in ("/tmp/", "/home/", "site-packages", "seconds=", "widget-view"):
        assert trace not in text


def test_the_pictures_are_stored_with_alternative_text(notebook):
    html = [
        output["data"]["text/html"]
        for cell in code_cells(notebook)
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    pictures = [part for text in html for part in re.findall(r"<img[^>]*>", text)]
    assert len(pictures) >= 6
    assert all(re.search(r'alt="Lane diagram of \d+ steps', picture) for picture in pictures)


def test_notebooks_import_public_names_only(notebook):
    for cell in code_cells(notebook):
        for module in re.findall(r"^\s*(?:from|import)\s+(labkit[\w.]*)", cell.source, flags=re.M):
            assert PUBLIC.fullmatch(module)


def test_code_cells_are_short(notebook):
    assert max(len(cell.source.splitlines()) for cell in code_cells(notebook)) <= 16


def test_a_changed_output_is_noticed_by_the_check(tmp_path):
    """The comparison can fail: another stored text is a difference, other picture bytes are none."""
    source = ROOT / "notebooks" / "01_two_workers_one_job.ipynb"
    small = nbformat.read(source, as_version=4)
    small.cells = [cell for cell in small.cells if cell.cell_type == "code"][:5]
    path = tmp_path / "small.ipynb"

    def check():
        nbformat.write(small, path)
        command = [sys.executable, str(ROOT / "tests" / "refresh_notebooks.py"), "--check", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert check().returncode == 0
    small.cells[-1].outputs[0].text = "something else\n"
    answer = check()
    assert answer.returncode == 1
    assert "something else" in answer.stdout
