"""What a stopped worker looks like from inside: the functions it is in, the line it stands at, its local variables."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType
from typing import NamedTuple

import redis

from labkit.source import is_learners_module
from labkit.words import shorten

LONGEST_VALUE, MOST_ITEMS, DEEPEST = 60, 5, 2
_PLAIN = (type(None), bool, int, float, str, bytes)  # and no kinds of them, whose `repr` may be a learner's code
# What stands for a learner's code in scenarios that come with the lab: theirs, or else the parts that are taught.
_SCENARIOS = ("labkit.incidents", "labkit.cases", "labkit.exercises")
_TAUGHT = ("labkit.workers", "labkit.queues", "labkit.locks", "labkit.idempotency")


class Variable(NamedTuple):
    """A local variable: its name, and its value as text."""

    name: str
    value: str


class Frame(NamedTuple):
    """A function that a worker is in.

    Parameters
    ----------
    function: its name.
    first: the number of its first line, in its file or notebook cell.
    lines: its source; none when it cannot be read.
    current: the number of the line that the worker stands at; 0 for none.
    variables: its local variables; the value of one that is not set yet is empty.
    """

    function: str
    first: int
    lines: tuple[str, ...]
    current: int
    variables: tuple[Variable, ...]

    @property
    def line(self) -> str:
        """The line that the worker stands at; empty when it cannot be read."""
        place = self.current - self.first
        return self.lines[place].strip() if 0 <= place < len(self.lines) else ""


def frames_of(innermost: FrameType | None) -> tuple[Frame, ...]:
    """The learner's functions that a stopped actor is in, from the outermost to the innermost.

    Where none of them is the learner's, the lab's own workers are shown.
    """
    frames = []
    while innermost is not None:
        frames.append(innermost)
        innermost = innermost.f_back
    frames.reverse()
    modules = [(frame, str(frame.f_globals.get("__name__", ""))) for frame in frames]
    shown = [frame for frame, module in modules if is_learners_module(module)]
    for others in (_SCENARIOS, _TAUGHT):
        shown = shown or [frame for frame, module in modules if module.startswith(others)]
    return tuple(_frame(frame) for frame in shown)


def function_of(function: Callable[..., object]) -> Iterator[Frame]:
    """A worker's function, with nobody in it; nothing when it is none that was written with `def`."""
    code = getattr(function, "__code__", None)
    if code is not None:
        first, lines = source_of(code)
        yield Frame(code.co_name, first, lines, 0, _variables(code, {}))


def _frame(frame: FrameType) -> Frame:
    first, lines = source_of(frame.f_code)
    return Frame(frame.f_code.co_name, first, lines, frame.f_lineno, _variables(frame.f_code, frame.f_locals))


def _variables(code: CodeType, values: Mapping[str, object]) -> tuple[Variable, ...]:
    names = [name for name in (*code.co_varnames, *code.co_freevars) if not name.startswith((".", "_"))]
    return tuple(Variable(name, as_text(values[name]) if name in values else "") for name in names)


@functools.lru_cache(maxsize=256)
def source_of(code: CodeType) -> tuple[int, tuple[str, ...]]:
    """The number of a function's first line, and its lines without their common indentation."""
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndentationError):
        return code.co_firstlineno, ()
    return first, tuple(textwrap.dedent("".join(lines)).rstrip("\n").split("\n"))


def as_text(value: object, depth: int = 0) -> str:
    """A value in few words, the same in every process: no addresses, and no code of the learner's is run for it."""
    if isinstance(value, Enum):  # before numbers and texts, since it may be one of them as well
        return f"{type(value).__name__}.{value.name}"
    if type(value) in _PLAIN:
        return shorten(repr(value), LONGEST_VALUE)
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType, type)):
        return f"function {value.__name__}"
    if isinstance(value, redis.Redis):
        return "a redis.Redis"
    if depth < DEEPEST:
        text = _container(value, depth)
        if text is not None:
            return shorten(text, LONGEST_VALUE)
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def _container(value: object, depth: int) -> str | None:
    """The first items of a container, or the plain fields of a dataclass; None for anything else."""
    if type(value) is dict:
        pairs = list(value.items())
        shown = [f"{as_text(key, depth + 1)}: {as_text(part, depth + 1)}" for key, part in pairs[:MOST_ITEMS]]
        return "{" + _joined(shown, len(pairs)) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [as_text(part, depth + 1) for part in value]
        if isinstance(value, (set, frozenset)):
            items.sort()
        opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        return opening + _joined(items[:MOST_ITEMS], len(items)) + closing
    if is_dataclass(value) and not isinstance(value, type):
        held = [(each.name, vars(value).get(each.name)) for each in fields(value) if hasattr(value, "__dict__")]
        plain = [f"{name}={as_text(part)}" for name, part in held if isinstance(part, (bool, int, float, str))]
        return f"{type(value).__name__}({', '.join(plain)})"
    return None


def _joined(parts: list[str], count: int) -> str:
    return ", ".join(parts + ["…"] * (count > len(parts)))
