"""How far a learner has come: which exercises their checks have passed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labkit.course.folder import is_course
from labkit.course.notebooks import CourseError, course_notebooks, exercises_in
from labkit.exercises.record import attempts


@dataclass(frozen=True)
class Standing:
    """One exercise of the course.

    Parameters
    ----------
    notebook: the notebook that it is in.
    exercise: its name.
    attempts: how often it was checked.
    passed: whether any of them passed.
    """

    notebook: str
    exercise: str
    attempts: int
    passed: bool

    @property
    def word(self) -> str:
        """Passed, tried, or not yet."""
        return "passed" if self.passed else "tried" if self.attempts else "not yet"


def progress(folder: Path) -> list[Standing]:
    """Every exercise, in the course's order; `CourseError` when the folder is no copy of the course."""
    if not is_course(folder):
        raise CourseError(f"{folder} is no copy of the course; `python -m labkit lab FOLDER` makes one")
    made = list(attempts(folder))
    return [
        Standing(
            path.stem,
            name,
            sum(one.exercise == name for one in made),
            any(one.exercise == name and one.passes for one in made),
        )
        for path in course_notebooks()
        for name in exercises_in(path)
    ]


def as_text(standings: list[Standing]) -> str:
    """A table, and a line of totals."""
    width = max((len(one.notebook) for one in standings), default=0)
    lines = [f"{one.notebook:{width}}  {one.exercise:24}{one.word:9}{_times(one.attempts)}" for one in standings]
    passed = sum(one.passed for one in standings)
    return "\n".join([*(line.rstrip() for line in lines), "", f"{passed} of {len(standings)} exercises passed."])


def _times(number: int) -> str:
    return f"{number} {'attempt' if number == 1 else 'attempts'}" if number else ""
