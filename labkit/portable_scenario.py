"""A scenario on its way to other processes: by reference to a module, by its name there, or by value.

Whoever receives it makes sure that it is the same code: a process of an executor may be older than the last change.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.util
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from labkit.errors import ScenarioError
from labkit.interception import stand_in_for_good
from labkit.lab import Scenario

_PLAIN = (type(None), bool, int, float, str, bytes)
_NOT_THE_LEARNERS = frozenset({"labkit", "redis", "fakeredis"}) | sys.stdlib_module_names


class _ByName(NamedTuple):
    """A function that a module knows under a name which is not the function's own."""

    module: str
    name: str


def pack_scenario(scenario: Scenario) -> bytes:
    """A scenario as bytes; `ScenarioError` says what to do when it cannot be sent."""
    ways: list[Callable[[Scenario], bytes]] = [pickle.dumps, _by_name, _by_value]
    if getattr(scenario, "func", scenario).__module__ == "__main__" and importlib.util.find_spec("cloudpickle"):
        ways.reverse()  # another process has another __main__
    reasons = []
    for way in ways:
        try:
            return pickle.dumps((way(scenario), fingerprint(scenario)))
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
    raise ScenarioError(
        f"the scenario cannot be sent to an executor's processes ({reasons[0]}). Write it with `def` at the top level "
        "of a module, with functools.partial for its parameters; or install cloudpickle, which sends any function."
    )


def unpack_scenario(parcel: bytes) -> Scenario:
    """The scenario, in another process; `ScenarioError` when it is not there or is not the same."""
    inner, mark = pickle.loads(parcel)
    try:
        scenario = pickle.loads(inner)
        if isinstance(scenario, _ByName):
            scenario = getattr(importlib.import_module(scenario.module), scenario.name)
    except Exception as error:
        raise ScenarioError(
            f"a process of the executor cannot load the scenario ({type(error).__name__}: {error}). It must be able to "
            "import the module that defines it; and an executor that was made before the scenario does not know it."
        ) from error
    if fingerprint(scenario) != mark:
        raise ScenarioError(
            "a process of the executor has another version of the scenario, or of a function or constant that it uses: "
            "make a new executor after every change of the code"
        )
    for part in _reachable(scenario):
        if isinstance(part, types.FunctionType) and _is_by_value(part):
            stand_in_for_good(part.__globals__)
    made: Scenario = scenario
    return made


def _by_name(scenario: Scenario) -> bytes:
    modules = [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    places = (
        (module.__name__, name) for module in modules for name, value in vars(module).items() if value is scenario
    )
    return pickle.dumps(_ByName(*next(places)))


def _by_value(scenario: Scenario) -> bytes:
    parcel: bytes = importlib.import_module("cloudpickle").dumps(scenario)
    return parcel


def _is_by_value(function: types.FunctionType) -> bool:
    """Whether a function was made from its code here, with global variables of its own."""
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    return module is None or vars(module) is not function.__globals__


def fingerprint(scenario: Scenario) -> str:
    """What tells versions of a scenario apart: the code that it reaches by name, and the constants in it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _reachable(scenario):
        for piece in _pieces(part.__code__) if isinstance(part, types.FunctionType) else [repr(part)]:
            digest.update(piece.encode(errors="backslashreplace") + b"\0")
    return digest.hexdigest()


def _pieces(code: types.CodeType) -> Iterator[str]:
    yield from (code.co_name, code.co_code.hex(), repr(code.co_names), repr(code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _pieces(constant)
        else:
            yield _text(constant)


def _text(constant: object) -> str:
    """A constant in an order that does not follow Python's hash seed."""
    if isinstance(constant, (tuple, frozenset)):
        parts = map(_text, constant)
        return repr(tuple(parts) if isinstance(constant, tuple) else sorted(parts))
    return repr(constant)


def _reachable(scenario: Scenario) -> Iterator[Any]:
    """The learner's functions that a scenario can call, and plain values that they use; always in the same order."""
    todo: list[Any] = [scenario]
    seen: dict[int, Any] = {}
    while todo:
        value = todo.pop()
        value = getattr(value, "__func__", value)
        if isinstance(value, _PLAIN):
            yield value
        elif id(value) in seen or not _is_the_learners(value):
            continue
        elif isinstance(value, types.FunctionType):
            yield value
            todo += [*_contents(value.__closure__ or ()), *(value.__defaults__ or ())]
            todo += (value.__kwdefaults__ or {}).values()
            todo += [value.__globals__[name] for name in _global_names(value.__code__) if name in value.__globals__]
        elif isinstance(value, type):
            todo += [part for name, part in sorted(vars(value).items()) if isinstance(part, types.FunctionType)]
        elif isinstance(value, functools.partial):
            todo += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, tuple):
            todo += value
        else:
            todo.append(type(value))
        seen[id(value)] = value


def _contents(cells: Iterable[types.CellType]) -> Iterator[Any]:
    for cell in cells:
        with suppress(ValueError):  # a variable that has no value yet
            yield cell.cell_contents


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from dict.fromkeys(step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_the_learners(value: Any) -> bool:
    if isinstance(value, (functools.partial, tuple)):
        return True
    of = value if isinstance(value, (type, types.FunctionType)) else type(value)
    installed = isinstance(value, types.FunctionType) and "site-packages" in value.__code__.co_filename
    return not installed and str(of.__module__).partition(".")[0] not in _NOT_THE_LEARNERS
