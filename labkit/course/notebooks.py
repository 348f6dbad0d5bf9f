"""Where the course's notebooks are: in the clone beside the package, or with the installed distribution."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import labkit
from labkit.errors import LabError

DISTRIBUTION = "worker-race-lab"
INSTALLED = f"share/{DISTRIBUTION}/notebooks"  # see `data-files` in pyproject.toml


class CourseError(LabError):
    """The course cannot be copied, reset or read there: why, and what to do."""


def course_notebooks() -> list[Path]:
    """The notebooks as they were written, in order; `CourseError` when they are nowhere."""
    found = _in_the_clone() or _installed()
    if not found:
        raise CourseError(
            "the notebooks are neither beside the package nor installed with it; "
            "clone the repository and install it with `pip install -e .`"
        )
    return sorted(found, key=lambda path: path.name)


def as_new(path: Path) -> str:
    """A notebook's text without what its cells put out: a learner predicts before they see."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def exercises_in(path: Path) -> list[str]:
    """The names of the exercises in a notebook, in order."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tags = [tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])]
    return [tag.removeprefix("exercise:") for tag in tags if tag.startswith("exercise:")]


def _in_the_clone() -> list[Path]:
    return list((Path(labkit.__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def _installed() -> list[Path]:
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    ours = [file for file in files if INSTALLED in file.as_posix() and file.suffix == ".ipynb"]
    return [path for path in (Path(str(file.locate())).resolve() for file in ours) if path.is_file()]
