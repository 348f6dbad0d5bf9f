"""Evaluates an expression over series at one moment, as Prometheus does.

Source: `extrapolatedRate` and `bucketQuantile` in https://github.com/prometheus/prometheus/tree/main/promql
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from labkit.observe.promql import Aggregation, Call, Number, Operation, PromQLError, Selector, Tree
from labkit.observe.series import Labels, Series

LOOK_BACK = 300.0  # seconds for which the last sample of a series counts as its value
Vector = dict[Labels, float]
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_AGGREGATE: dict[str, Callable[[list[float]], float]] = {
    "sum": lambda values: math.fsum(values) if all(map(math.isfinite, values)) else sum(values),
    "max": lambda values: max(values, key=lambda value: (not math.isnan(value), value)),  # a number beats NaN
    "min": lambda values: min(values, key=lambda value: (math.isnan(value), value)),
}


def evaluate(tree: Tree, series: Series, at: float) -> Vector | float:
    """The value of an expression: a number, or a vector with a value for each combination of labels.

    Parameters
    ----------
    tree: the expression, parsed.
    series: what was scraped.
    at: the moment, in seconds.
    """
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Selector):
        return _instant(tree, series, at)
    if isinstance(tree, Call):
        return _call(tree, series, at)
    if isinstance(tree, Aggregation):
        return _aggregate(tree, series, at)
    return _operate(tree, evaluate(tree.left, series, at), evaluate(tree.right, series, at))


def _matching(tree: Selector, series: Series) -> dict[Labels, list[tuple[float, float]]]:
    found = series.kept.get(tree.name, {})
    wanted = dict(tree.labels)  # an empty text is that of a label that a series does not have
    return {
        labels: points
        for labels, points in found.items()
        if all(dict(labels).get(name, "") == value for name, value in wanted.items())
    }


def _instant(tree: Selector, series: Series, at: float) -> Vector:
    if tree.range is not None:
        raise PromQLError(f"{tree.name}[…] is a range; rate() or increase() makes a value of it")
    vector = {}
    for labels, points in _matching(tree, series).items():
        seen = [value for seconds, value in points if at - LOOK_BACK < seconds <= at]
        if seen:
            vector[labels] = seen[-1]
    return vector


def _call(tree: Call, series: Series, at: float) -> Vector:
    if tree.function == "histogram_quantile":
        quantile, buckets = (evaluate(argument, series, at) for argument in tree.arguments)
        if not isinstance(quantile, float) or not isinstance(buckets, dict):
            raise PromQLError("histogram_quantile() takes a number, and then a vector of buckets")
        return _quantiles(quantile, buckets)
    (argument,) = tree.arguments
    if not isinstance(argument, Selector) or argument.range is None:
        raise PromQLError(f"{tree.function}() needs a range, as in {tree.function}(metric[5m])")
    vector = {}
    for labels, points in _matching(argument, series).items():
        rise = increase([point for point in points if at - argument.range < point[0] <= at], at - argument.range, at)
        if rise is not None:
            vector[labels] = rise / argument.range if tree.function == "rate" else rise
    return vector


def increase(points: list[tuple[float, float]], start: float, end: float) -> float | None:
    """By how much a counter rose between two moments, carried on to both ends; None with fewer than two samples."""
    if len(points) < 2:
        return None
    (first, begun), (last, ended) = points[0], points[-1]
    rise = ended - begun
    before = begun
    for _, value in points[1:]:
        rise += before if value < before else 0  # it began anew
        before = value
    sampled = last - first
    between = sampled / (len(points) - 1)
    to_start, to_end = first - start, end - last
    if rise > 0 and begun >= 0:
        to_start = min(to_start, sampled * (begun / rise))  # a counter is never below zero
    length = sampled
    for rest in (to_start, to_end):
        length += rest if rest < between * 1.1 else between / 2
    return rise * (length / sampled)


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        if "le" not in dict(labels):
            continue  # as Prometheus does: it is no bucket
        rest = tuple(pair for pair in labels if pair[0] != "le")
        groups.setdefault(rest, []).append((float(dict(labels)["le"]), count))
    return {labels: _quantile(quantile, sorted(ends)) for labels, ends in groups.items()}


def _quantile(quantile: float, ends: list[tuple[float, float]]) -> float:
    """Where a share of all values lies: counted to its bucket, then in proportion within it."""
    if not 0 <= quantile <= 1:
        return math.nan if math.isnan(quantile) else math.copysign(math.inf, quantile)
    if len(ends) < 2 or not math.isinf(ends[-1][0]) or not ends[-1][1]:
        return math.nan
    rank = quantile * ends[-1][1]
    place = next((place for place, (_, count) in enumerate(ends[:-1]) if count >= rank), len(ends) - 1)
    if place == len(ends) - 1:
        return ends[-2][0]  # nothing is known beyond the last boundary
    low, below = ends[place - 1] if place else (0.0, 0.0)
    high, count = ends[place]
    if count == below:
        return math.nan  # nothing is in the first bucket, and the quantile is 0
    return low + (high - low) * (rank - below) / (count - below)


def _aggregate(tree: Aggregation, series: Series, at: float) -> Vector:
    vector = evaluate(tree.of, series, at)
    if not isinstance(vector, dict):
        raise PromQLError(f"{tree.function}() needs a vector, not a number")
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(tuple(pair for pair in labels if pair[0] in tree.by), []).append(value)
    return {labels: _AGGREGATE[tree.function](values) for labels, values in groups.items()}


def _operate(tree: Operation, left: Vector | float, right: Vector | float) -> Vector | float:
    if isinstance(left, float) and isinstance(right, float):
        if tree.sign not in (*_ARITHMETIC, "/"):
            raise PromQLError(f"two numbers cannot stand beside {tree.sign!r} here")
        return _calculate(tree.sign, left, right)
    if tree.sign in ("and", "or", "unless"):
        return _set(tree, left, right)
    vector: Vector = {}
    for labels, one, other, shown in _pairs(tree, left, right):
        if tree.sign in _COMPARE:
            if _COMPARE[tree.sign](one, other):
                vector[shown] = one if isinstance(left, dict) else other
        else:
            vector[labels] = _calculate(tree.sign, one, other)
    return vector


def _pairs(tree: Operation, left: Vector | float, right: Vector | float) -> list[tuple[Labels, float, float, Labels]]:
    """What stands beside what: labels of the result, the two values, and labels of a result that is compared."""
    if isinstance(right, float):
        assert isinstance(left, dict)
        return [(labels, value, right, labels) for labels, value in left.items()]
    if isinstance(left, float):
        return [(labels, left, value, labels) for labels, value in right.items()]
    others = {_key(labels, tree.on): value for labels, value in right.items()}
    found = [(_key(labels, tree.on), value, labels) for labels, value in left.items()]
    for keys in ([key for key, _, _ in found], [_key(labels, tree.on) for labels in right]):
        if len(set(keys)) < len(keys):
            raise PromQLError(f"several series match one beside {tree.sign!r}; aggregate first")
    shown = [(key, value, labels if tree.on is None else key) for key, value, labels in found]
    return [(key, value, others[key], labels) for key, value, labels in shown if key in others]


def _set(tree: Operation, left: Vector | float, right: Vector | float) -> Vector:
    if isinstance(left, float) or isinstance(right, float):
        raise PromQLError(f"a number cannot stand beside {tree.sign!r}")
    keys = {_key(labels, tree.on) for labels in right}
    if tree.sign == "or":
        own = {_key(labels, tree.on) for labels in left}
        return left | {labels: value for labels, value in right.items() if _key(labels, tree.on) not in own}
    wanted = tree.sign == "and"
    return {labels: value for labels, value in left.items() if (_key(labels, tree.on) in keys) == wanted}


def _key(labels: Labels, on: tuple[str, ...] | None) -> Labels:
    return labels if on is None else tuple(pair for pair in labels if pair[0] in on)


def _calculate(sign: str, left: float, right: float) -> float:
    if sign != "/":
        return _ARITHMETIC[sign](left, right)
    return left / right if right else math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)
