"""A learner's own copy of the course: made once, added to, and never written over."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path

import labkit
from labkit.course.notebooks import DISTRIBUTION, CourseError, as_new, course_notebooks
from labkit.exercises.record import COURSE_FILE

DEFAULT = "worker-race-lab-course"


def default_folder() -> Path:
    """The copy that is meant when none is named: the one we are in, or the one beside us."""
    return Path() if is_course(Path()) else Path(DEFAULT)


def make_folder(folder: Path) -> list[Path]:
    """Copy the course into a folder, but for the notebooks that are there; returns those that were added.

    Parameters
    ----------
    folder: a new or empty one, or one that was made before.

    Raises `CourseError` when something else is in it.
    """
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"{folder} is a file; name a folder for your copy of the course")
    if folder.is_dir() and not is_course(folder) and any(folder.iterdir()):
        raise CourseError(f"{folder} holds other things, so the course is not put there; name a new or an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(f"{folder} cannot be made ({error.strerror}); name a folder that you may write in") from error
    try:
        if not is_course(folder):
            head = {"course": DISTRIBUTION, "version": labkit.__version__}
            (folder / COURSE_FILE).write_text(json.dumps(head) + "\n", encoding="utf-8")
        return [folder / source.name for source in course_notebooks() if _add(folder / source.name, as_new(source))]
    except OSError as error:
        raise CourseError(f"{error.filename} cannot be written ({error.strerror}); may you write there?") from error


def reset(notebook: str, folder: Path) -> tuple[Path, Path]:
    """Put a notebook back as it was, and keep the learner's beside it; returns the notebook and the kept one.

    Where there was none to keep, the notebook is returned twice.

    Parameters
    ----------
    notebook: its path, its name, or its number.
    folder: where to look for it, when no path is given.

    Raises `CourseError` when it is not a notebook of the course, in a copy of the course.
    """
    path = Path(notebook) if notebook.endswith(".ipynb") and Path(notebook).parent != Path() else folder / notebook
    number = path.name.removesuffix(".ipynb").zfill(2)  # 3 is 03
    sources = [source for source in course_notebooks() if number in (source.stem, source.stem.partition("_")[0])]
    if not sources:
        names = ", ".join(source.stem for source in course_notebooks())
        raise CourseError(f"the course has no notebook {notebook!r}; it has {names}")
    if not is_course(path.parent):
        raise CourseError(f"{path.parent} is no copy of the course; say where yours is: reset {number} FOLDER")
    target = path.parent / sources[0].name
    kept = _keep(target) if target.exists() else target
    _add(target, as_new(sources[0]))
    return target, kept


def is_course(folder: Path) -> bool:
    """Whether a folder is a copy of the course."""
    return (folder / COURSE_FILE).is_file()


def _keep(path: Path) -> Path:
    """Move a file aside, under the first free numbered name."""
    for number in count(1):
        aside = path.with_name(f"{path.stem}.mine-{number}{path.suffix}")
        try:
            with aside.open("xb") as out:  # unlike a look and a rename, it fails when the name is taken meanwhile
                out.write(path.read_bytes())
            path.unlink()
        except FileExistsError:
            continue
        except OSError as error:
            with suppress(OSError):
                aside.unlink()  # else half of a copy would look like one that was kept
            raise CourseError(f"{path} cannot be kept as {aside.name} ({error.strerror}); it is as it was") from error
        return aside
    raise AssertionError("numbers do not end")


def _add(path: Path, text: str) -> bool:
    """Write a new file; False when there is one already."""
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        return False
    return True
