"""Finds the scenario that a command names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from labkit.errors import LabError, ScenarioError
from labkit.lab import Scenario


def load_scenario(place: str) -> Scenario:
    """The scenario at `FILE.py:name` or `package.module:name`; `ScenarioError` says what is missing."""
    where, colon, name = place.rpartition(":")
    if not colon or not where:
        raise ScenarioError(f"{place!r} names no scenario; write FILE.py:function or package.module:function")
    try:
        module = _module_from(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except LabError:
        raise
    except Exception as error:
        raise ScenarioError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise ScenarioError(f"{where} has no {name!r}")
    scenario: Scenario = getattr(module, name)
    return scenario


def _module_from(path: Path) -> object:
    if not path.is_file():
        raise ScenarioError(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))  # as when Python runs the file itself
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
