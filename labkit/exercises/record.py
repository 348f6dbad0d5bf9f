"""Attempts at exercises: kept for this session, and in the course folder when the notebook stands in one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

COURSE_FILE = "worker-race-lab.jsonl"  # `python -m labkit lab` puts it into the folder that it makes

_attempted: set[str] = set()


@dataclass(frozen=True)
class Attempt:
    """One check of one exercise.

    Parameters
    ----------
    exercise: its name.
    passes: whether the attempt did what was asked.
    at: when, in ISO 8601, UTC.
    """

    exercise: str
    passes: bool
    at: str


def record(exercise: str, passes: bool) -> None:
    """Remember an attempt; on disk only where `python -m labkit lab` has made a course folder."""
    _attempted.add(exercise)
    file = Path.cwd() / COURSE_FILE  # a kernel works in its notebook's folder
    if not file.is_file():
        return
    line = json.dumps(asdict(Attempt(exercise, passes, datetime.now(UTC).isoformat(timespec="seconds"))))
    # Appended, never rewritten: two notebooks may be open, and check-then-act is what this course is about.
    with suppress(OSError), file.open("a", encoding="utf-8") as out:
        out.write(line + "\n")


def was_attempted(exercise: str) -> bool:
    """Whether an attempt was made in this session, or is on record in this folder."""
    return exercise in _attempted or any(one.exercise == exercise for one in attempts(Path.cwd()))


def attempts(folder: Path) -> Iterator[Attempt]:
    """The attempts on record in a course folder, oldest first; lines that are none are passed over."""
    file = folder / COURSE_FILE
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, TypeError):
            yield Attempt(**json.loads(line))
