"""Make the notebooks from their sources, execute them, and store the outputs in a reproducible form.

    python tests/refresh_notebooks.py [--check | --points] [NOTEBOOK ...]

`notebooks/solutions/NN_name.ipynb` is the source; `notebooks/NN_name.ipynb` is made from it. A cell tagged
`exercise:NAME` is filled in: with the solution of that exercise there, with its starter here. A cell tagged `solution`
is left out here. Name one of the two, or a number, to refresh both; with none, all are done.

What is stored depends on nothing but the notebook and the package: fixed kernel name, cell ids and execution counts
1…n, no timings, no widget state. Pictures are stored too, so that they show on a code host. --check compares with what
is stored, and changes nothing; it leaves pictures out, since their bytes depend on the matplotlib that is installed.
--points only writes `notebooks/points.md`, the table of what is covered where.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from labkit import explore  # noqa: E402
from labkit.exercises import all_exercises  # noqa: E402
from labkit.plots.figure import Picture  # noqa: E402
from tests import points  # noqa: E402
from tests.programs import article_fix  # noqa: E402

NOTEBOOKS = ROOT / "notebooks"
SOURCES = NOTEBOOKS / "solutions"
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")
WIDGET = "application/vnd.jupyter.widget-view+json"  # its content is a random id
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def tags(cell: nbformat.NotebookNode) -> list[str]:
    """The tags of a cell."""
    found: list[str] = cell.metadata.get("tags", [])
    return found


def is_quiz(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell asks the questions at the end: data rather than code."""
    return "Quiz([" in "".join(cell.source.split())


def made_from(source: nbformat.NotebookNode, *, solved: bool) -> nbformat.NotebookNode:
    """A notebook without outputs, made from a source: with the solutions, or with what learners start from."""
    exercises = all_exercises()
    notebook = copy.deepcopy(source)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.cells = [cell for cell in notebook.cells if solved or "solution" not in tags(cell)]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = nbformat.from_dict({"tags": sorted(tags(cell))} if tags(cell) else {})
        if is_quiz(cell):
            cell.metadata["jupyter"] = {"source_hidden": True}  # the right answers stand in it
        for tag in tags(cell):
            if tag.startswith("exercise:"):
                exercise = exercises[tag.removeprefix("exercise:")]
                cell.source = exercise.cell(exercise.reference if solved else exercise.starting_point)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def executed(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs."""
    os.environ["LABKIT_PROGRESS"] = "0"
    os.environ["PYTHONPATH"] = str(ROOT)
    notebook = copy.deepcopy(notebook)
    where = {"metadata": {"path": folder}}
    # Coalesced: how a cell's prints are cut into messages depends on the moment.
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where, coalesce_streams=True).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in ("tags", "jupyter")})
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
            output.get("data", {}).pop(WIDGET, None)
        if cell.cell_type == "code":  # a view without a kernel is nothing; the text beside it stays
            cell.outputs = [output for output in cell.outputs if output.get("data") != {}]
    return notebook


def without_pictures(text: str) -> list[str]:
    """The lines of a notebook file, with every embedded picture replaced by a word."""
    return PICTURE.sub("PICTURE", text).splitlines(keepends=True)


def readme_picture() -> Picture:
    """The picture on top of the README."""
    verdict = explore(article_fix, crashes=1, pauses=1)
    assert verdict.counterexample is not None
    return verdict.counterexample.lanes()


def chosen_sources(names: list[str]) -> list[Path]:
    """The sources that are named by number, name or path; all of them when none is named."""
    sources = sorted(SOURCES.glob("*.ipynb"))
    if not names:
        return sources
    found = []
    for name in names:
        wanted = Path(name).name.removesuffix(".ipynb")
        found += [one for one in sources if wanted in (one.stem, one.stem.partition("_")[0])] or [Path(name)]
    return found


def fresh(path: Path) -> dict[Path, str]:
    """What must be stored for a source, by file; a notebook that is no source stands for itself alone."""
    source = nbformat.read(path, as_version=4)
    targets = {path: True, NOTEBOOKS / path.name: False} if path.parent.resolve() == SOURCES else {path: True}
    return {
        target: nbformat.writes(executed(made_from(source, solved=solved), target.parent)) + "\n"
        for target, solved in targets.items()
    }


def is_as_stored(path: Path, text: str) -> bool:
    """Whether a file has this text, but for pictures; the difference is printed."""
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = list(difflib.unified_diff(without_pictures(stored), without_pictures(text), "stored", "fresh", n=1))
    sys.stdout.writelines(lines)
    return not lines


def main() -> int:
    """Refresh or check; the exit code is 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is stored, and change nothing")
    parser.add_argument("--points", action="store_true", help="write the table of points, and execute nothing")
    parser.add_argument("notebooks", nargs="*")
    options = parser.parse_args()
    differs = False
    for source in [] if options.points else chosen_sources(options.notebooks):
        for path, text in fresh(source).items():
            if options.check:
                same = is_as_stored(path, text)
                differs = differs or not same
            else:
                same = False
                path.write_text(text, encoding="utf-8")
            print(f"{path.parent.name}/{path.name}: {'as stored' if same else 'differs' if options.check else 'made'}")
    text = points.table(points.covered())
    if options.check:
        differs = not is_as_stored(points.TABLE, text) or differs
    else:
        points.TABLE.write_text(text, encoding="utf-8")
    if not options.notebooks and not options.check and not options.points:
        readme_picture().save(NOTEBOOKS / "images" / "lock_expires.png")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
