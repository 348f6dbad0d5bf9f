"""Execute the notebooks and store their outputs in a reproducible form; with --check, compare instead.

    python tests/refresh_notebooks.py [--check] [NOTEBOOK ...]

What is stored depends on nothing but the notebook and the package: fixed kernel name, execution counts 1…n, no
timings, no widget state. Pictures are stored too, so that they show on a code host; --check leaves them out,
since their bytes depend on the matplotlib that is installed.
"""

from __future__ import annotations

import argparse
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
from labkit.plots.figure import Picture  # noqa: E402
from tests.programs import article_fix  # noqa: E402

NOTEBOOKS = ROOT / "notebooks"
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs."""
    os.environ["LABKIT_PROGRESS"] = "0"
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    return notebook


def without_pictures(text: str) -> list[str]:
    """The lines of a notebook file, with every embedded picture replaced by a word."""
    return PICTURE.sub("PICTURE", text).splitlines(keepends=True)


def readme_picture() -> Picture:
    """The picture on top of the README."""
    verdict = explore(article_fix, crashes=1, pauses=1)
    assert verdict.counterexample is not None
    return verdict.counterexample.lanes()


def main() -> int:
    """Refresh or check; the exit code is 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is stored, and change nothing")
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(NOTEBOOKS.glob("*.ipynb")))
    options = parser.parse_args()
    differs = False
    for path in options.notebooks:
        fresh = nbformat.writes(executed(path)) + "\n"
        if options.check:
            stored = path.read_text(encoding="utf-8")
            lines = list(
                difflib.unified_diff(without_pictures(stored), without_pictures(fresh), "stored", "fresh", n=1)
            )
            differs = differs or bool(lines)
            sys.stdout.writelines(lines)
            print(f"{path.name}: {'differs' if lines else 'as stored'}")
        else:
            path.write_text(fresh, encoding="utf-8")
            print(f"{path.name}: refreshed")
    if not options.check:
        readme_picture().save(NOTEBOOKS / "images" / "lock_expires.png")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
