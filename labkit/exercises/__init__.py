"""Exercises whose checks answer with a counterexample: one per file in `tasks`, each found under its file's name.

`from labkit.exercises import complete_once`, then `complete_once.check(my_function)`.
"""

from __future__ import annotations

import importlib
import pkgutil

from labkit.exercises import tasks
from labkit.exercises.answer import Answer
from labkit.exercises.exercise import Exercise, Mistake

__all__ = ["Answer", "Exercise", "Mistake", "all_exercises"]


def all_exercises() -> dict[str, Exercise]:
    """Every exercise, by name."""
    return {name: _exercise(name) for name in _names()}


def _names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(tasks.__path__))


def _exercise(name: str) -> Exercise:
    found: Exercise = getattr(importlib.import_module(f"{tasks.__name__}.{name}"), name)
    return found


def __getattr__(name: str) -> Exercise:
    # Only when somebody asks for it: a learner who does one exercise need not load them all.
    if name in _names():
        return _exercise(name)
    raise AttributeError(f"there is no exercise {name!r}; there are {', '.join(_names())}")


def __dir__() -> list[str]:
    return [*__all__, *_names()]
