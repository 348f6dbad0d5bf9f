"""Workers are processes: what they share besides stores and services, no search can see, so it is refused."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import dis
import enum
import functools
import logging
import pathlib
import re
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import redis
from redis.commands.core import Script

from labkit.errors import ScenarioError

_UNCHANGING = (
    *(type(None), bool, int, float, complex, str, bytes, range, decimal.Decimal, enum.Enum, uuid.UUID, re.Pattern),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, logging.Logger),
    *(type, types.ModuleType, types.BuiltinFunctionType, redis.Redis, Script),
)
_ADVICE = (
    "Workers are processes and share nothing but stores and services: give each worker its own, "
    "pass a tuple or a string, or keep it in Redis"
)
_CONTAINERS = (list, dict, set, bytearray)


def changing_parts(value: object, seen: set[int] | None = None) -> Iterator[object]:
    """Everything reachable from a value that one worker could change under another.

    Looks into tuples, frozen dataclasses, partials, methods, and what functions close over.
    """
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, _UNCHANGING) or getattr(value, "_shareable", False):
        return
    seen.add(id(value))
    inner: list[object]
    if isinstance(value, (tuple, frozenset)):
        inner = list(value)
    elif isinstance(value, types.FunctionType):
        inner = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        inner += value.__defaults__ or ()
        inner += (value.__kwdefaults__ or {}).values()
    elif isinstance(value, types.MethodType):
        inner = [value.__self__]
    elif isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif dataclasses.is_dataclass(value) and getattr(type(value), "__dataclass_params__").frozen:  # noqa: B009
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        yield value
        return
    for part in inner:
        yield from changing_parts(part, seen)


class Ownership:
    """Which worker was given which changeable object."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[str, object]] = {}

    def claim(self, worker: str, values: tuple[object, ...]) -> None:
        """Note what a worker is given; `ScenarioError` when another worker has the same object."""
        for value in values:
            for part in changing_parts(value):
                owner, _ = self._owners.setdefault(id(part), (worker, part))
                if owner != worker:
                    what = type(part).__name__
                    raise ScenarioError(f"worker {worker} is given the same {what} as worker {owner}. {_ADVICE}.")


class GlobalsGuard:
    """Notices a worker that changes a global variable: a later run would start from what an earlier one left.

    Parameters
    ----------
    functions: the workers' functions.
    """

    def __init__(self, functions: list[Callable[..., object]]) -> None:
        self._before: list[tuple[str, str, object, object]] = []
        seen: set[int] = set()
        for function in functions:
            self._look_at(function, seen)

    def _look_at(self, function: object, seen: set[int]) -> None:
        function = getattr(function, "func", function)
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or id(function) in seen:
            return
        seen.add(id(function))
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
                self._look_at(value, seen)
            elif isinstance(value, _CONTAINERS):
                self._before.append((function.__name__, name, value, copy.deepcopy(value)))
        for cell in function.__closure__ or ():
            if _is_filled(cell):
                self._look_at(cell.cell_contents, seen)

    def check(self) -> None:
        """`ScenarioError` when a global container is not what it was."""
        for function, name, value, before in self._before:
            if value != before:
                raise ScenarioError(f"{function} changes the global variable {name!r}. {_ADVICE}.")


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_GLOBAL":
            raise ScenarioError(f"{code.co_name} assigns the global variable {instruction.argval!r}. {_ADVICE}.")
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
