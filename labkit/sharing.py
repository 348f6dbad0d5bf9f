"""Workers are processes: what they share besides stores and services, no search can see, so it is refused."""

from __future__ import annotations

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


class Guard:
    """Notices Python state that outlives a run: a later run, or another property, would start from what is left.

    Parameters
    ----------
    workers: the workers' functions; their global containers must stay as they are.
    checks: the properties' functions; what they close over must too.
    """

    def __init__(self, workers: list[Callable[..., object]], checks: list[Callable[..., object]]) -> None:
        self._before: list[tuple[str, Any, Any]] = []
        self._classes: list[tuple[str, type, dict[str, Any]]] = []
        seen: set[int] = set()
        for function in workers:
            self._look_at(function, seen)
        for check in checks:
            name = getattr(check, "__name__", "a check")
            for part in changing_parts(check):
                if isinstance(part, _CONTAINERS):
                    self._note(
                        f"{name}, the check of a property, keeps a memory of its own in a {type(part).__name__}", part
                    )

    def _note(self, complaint: str, value: Any) -> None:
        self._before.append((complaint, value, _snapshot(value)))

    def _look_at(self, function: object, seen: set[int]) -> None:
        function = getattr(function, "func", function)
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or id(function) in seen:
            return
        seen.add(id(function))
        name = function.__name__
        self._note(f"{name} changes an attribute of a function", function.__dict__)
        for variable in _global_names(function.__code__):
            value = function.__globals__.get(variable)
            if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
                self._look_at(value, seen)
            elif isinstance(value, _CONTAINERS):
                self._note(f"{name} changes the global variable {variable!r}", value)
            elif isinstance(value, type):
                self._look_at_class(name, value, function.__module__)
        for cell in function.__closure__ or ():
            if _is_filled(cell) and isinstance(cell.cell_contents, type):
                self._look_at_class(name, cell.cell_contents, function.__module__)
            elif _is_filled(cell):
                self._look_at(cell.cell_contents, seen)

    def _look_at_class(self, function: str, value: type, module: str) -> None:
        if value.__module__ == module:
            self._classes.append(
                (f"{function} changes an attribute of the class {value.__name__}", value, _data(value))
            )

    def check(self) -> None:
        """`ScenarioError` when something is not what it was; it is put back, so that the next run is told too."""
        for complaint, value, before in self._before:
            if value != before:
                if isinstance(value, (list, bytearray)):
                    value[:] = before
                else:
                    value.clear()
                    value.update(before)
                raise ScenarioError(f"{complaint}. {_ADVICE}.")
        for complaint, changed, attributes in self._classes:
            now = _data(changed)
            if now != attributes:
                for name in now.keys() - attributes.keys():
                    delattr(changed, name)
                for name, kept in attributes.items():
                    setattr(changed, name, kept)
                raise ScenarioError(f"{complaint}. {_ADVICE}.")


def _snapshot(value: Any) -> Any:
    """A copy of containers within containers; everything else stays the object that it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_snapshot, value)) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {key: _snapshot(part) for key, part in value.items()}
    return value.copy() if isinstance(value, (set, bytearray)) else value


def _data(value: type) -> dict[str, Any]:
    """The attributes of a class that are data: no methods, nothing of Python's own."""
    return {
        name: _snapshot(part)
        for name, part in vars(value).items()
        if not name.startswith("__")
        and not callable(part)
        and not isinstance(part, (property, classmethod, staticmethod))
    }


def refuse_shared_variables(name: str, check: Callable[..., object], worker: str, parts: tuple[object, ...]) -> None:
    """`ScenarioError` when a property looks at Python variables of a worker: it would never see them change."""
    theirs = {id(part) for value in parts for part in changing_parts(value)}
    shared = next((part for part in _contained(check) if id(part) in theirs), None)
    what = None if shared is None else f"a {type(shared).__name__} of"
    written = {id(cell): name for part in parts for name, cell in _cells(part, written=True)}
    for variable, cell in _cells(check, written=False):
        what = f"the variable {variable!r} of" if id(cell) in written else what
    if what is not None:
        raise ScenarioError(
            f"property {name!r} looks at {what} worker {worker}, which is a process of its own: the property would "
            "never see it change. Look at stores and services, through clients made in the scenario."
        )


def _contained(value: object, depth: int = 4) -> Iterator[object]:
    """What could change in a value, and in the containers that it holds."""
    for part in changing_parts(value):
        yield part
        if depth and isinstance(part, (list, dict, set)):
            for inner in part.values() if isinstance(part, dict) else part:
                yield from _contained(inner, depth - 1)


def _cells(function: object, written: bool) -> Iterator[tuple[str, object]]:
    """The variables that a function closes over, or only those that it assigns."""
    if not isinstance(function, types.FunctionType):
        return
    assigned = {
        instruction.argval for instruction in dis.get_instructions(function) if instruction.opname == "STORE_DEREF"
    }
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        if not written or variable in assigned:
            yield variable, cell


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
