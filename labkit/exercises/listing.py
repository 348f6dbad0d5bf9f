"""A function as a learner would write it: its source, under the learner's name, without annotations or docstring."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

Span = tuple[int, int, int, int]  # first line and column, last line and column; lines from 1


def listing(function: Callable[..., Any], name: str) -> str:
    """The source of a function, renamed.

    Parameters
    ----------
    function: a function that was defined with `def`.
    name: what the learner calls it.
    """
    text = textwrap.dedent(inspect.getsource(function))
    for first, start, last, end in sorted(_spans(text), reverse=True):
        lines = text.split("\n")
        lines[first - 1 : last] = [lines[first - 1][:start] + lines[last - 1][end:]]
        text = "\n".join(line for number, line in enumerate(lines) if line.strip() or number != first - 1)
    return re.sub(rf"\b{function.__name__}\b", name, text).rstrip("\n")


def _spans(text: str) -> Iterator[Span]:
    """What is left out."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                yield argument.lineno, argument.col_offset + len(argument.arg), *_end(argument)
        if node.returns is not None:
            line = text.split("\n")[node.returns.lineno - 1]
            yield node.returns.lineno, line.rindex(" ->", 0, node.returns.col_offset), *_end(node.returns)
        if ast.get_docstring(node) is not None:
            yield node.body[0].lineno, 0, *_end(node.body[0])


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset
