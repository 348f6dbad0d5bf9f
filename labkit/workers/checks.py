"""What every part here checks of the numbers that it is given."""

from __future__ import annotations

import math


def check_number(name: str, value: object, low: float = 0, high: float = math.inf, whole: bool = False) -> None:
    """`ValueError` unless a number lies in a range, both ends included; infinity never does."""
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or value == math.inf:  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        limits = f"{low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} is {value!r}; it must be {kind}, {limits}")
