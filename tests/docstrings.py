"""The schedules that the taught parts' docstrings show, each with its scenario, so that they can be replayed."""

import importlib
import re
from dataclasses import dataclass
from typing import Any

SHOWN = re.compile(r"(Shown|Holds) (?:by|for) `([^`]+)`(?: in tests/(\w+)\.py)?[^`]*`([^`]+)`")
SCENARIOS = "idempotency_scenarios"  # where they are when no file is named; that package's docstring says so


@dataclass(frozen=True)
class Shown:
    """What a docstring names: a scenario as it is written there, the scenario itself, and a schedule of it."""

    name: str
    scenario: Any
    schedule: str


def shown(kind, word="Shown"):
    """What a docstring shows to break, or with "Holds", what it says to hold."""
    found = [match for match in SHOWN.findall(kind.__doc__) if match[0] == word]
    assert len(found) == kind.__doc__.count(f"    {word} "), f"{kind.__name__} names no scenario"
    package = importlib.import_module(kind.__module__.rpartition(".")[0])
    return [Shown(name, build(name, file or SCENARIOS, package), schedule) for _, name, file, schedule in found]


def build(name, file, package):
    """The scenario that an expression makes in a test file, such as `contention(AtomicLock)`."""
    return eval(name, {**vars(package), **vars(importlib.import_module(f"tests.{file}"))})
