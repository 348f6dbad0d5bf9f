"""Where in the learner's code a worker stands: the line that took a step."""

from __future__ import annotations

import functools
import linecache
import sys
from dataclasses import dataclass
from types import FrameType, TracebackType

# Frames of these packages are machinery between the learner's line and the step it takes.
_MACHINERY = frozenset({"labkit", "redis", "fakeredis", "greenlet", "lupa"}) | sys.stdlib_module_names


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a worker's code.

    Parameters
    ----------
    function: the name of the function it stands in.
    number: its number in its file or notebook cell, from 1.
    text: the line itself, without indentation; empty when the source cannot be read.
    file: the file's path. It is left out of every printed form, since it differs between machines.
    """

    function: str
    number: int
    text: str
    file: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.number}" + (f": {self.text}" if self.text else "")


def _line(frame: FrameType, number: int) -> Line:
    code = frame.f_code
    text = linecache.getline(code.co_filename, number).strip()
    return Line(code.co_name, number, text, code.co_filename)


def learners_line(frame: FrameType | None) -> Line | None:
    """The innermost line that is the learner's, looking outwards from a frame."""
    while frame is not None:
        if _is_learners(frame):
            return _line(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def raising_line(trace: TracebackType | None) -> Line | None:
    """The innermost line that is the learner's, in the traceback of an exception."""
    found = None
    while trace is not None:
        if _is_learners(trace.tb_frame):
            found = _line(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return found


def error_in_one_line(error: BaseException) -> str:
    """What was raised: `KeyError: 'a'`, or the type alone when nothing more was said."""
    message = " ".join(str(error).split())
    return type(error).__name__ + (f": {message}" if message else "")


def error_text(error: BaseException) -> str:
    """What was raised, and at which of the learner's lines, if at one: `KeyError: 'a' (f, line 3: x["a"])`."""
    where = raising_line(error.__traceback__)
    return error_in_one_line(error) + (f" ({where})" if where else "")


def _is_learners(frame: FrameType) -> bool:
    return is_learners_module(frame.f_globals.get("__name__") or "")


@functools.cache
def is_learners_module(module: str) -> bool:
    """Whether a module is the learner's, and no machinery of the lab."""
    # A notebook's code and a script both run as __main__, which is in no list.
    return module == "__main__" or module.partition(".")[0] not in _MACHINERY
