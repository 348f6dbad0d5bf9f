"""The part of PromQL that the lab's rules are written in: read into a tree; see `labkit.observe.evaluation`.

Read are selectors with `=`, ranges, `rate`, `increase`, `histogram_quantile`, `sum`, `max` and `min` with `by`,
arithmetic, comparisons, `and`, `or`, `unless`, and matching with `on`. Everything else is refused by name.
Source: https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labkit.errors import LabError

_TOKEN = re.compile(
    r"\s*(?:(?P<duration>(?:\d+(?:ms|[smhdwy]))+)|(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>[A-Za-z_:][\w:]*)"
    r"|(?P<text>\"[^\"]*\")|(?P<sign>==|!=|>=|<=|[-+*/(){}\[\],=<>]))"
)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_PART = r"(\d+)(ms|[smhdwy])"
FUNCTIONS = {"rate": 1, "increase": 1, "histogram_quantile": 2}  # how many arguments each takes
AGGREGATIONS = ("sum", "max", "min")
_LEVELS = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/"))  # the loosest first


class PromQLError(LabError):
    """An expression that is none, or that uses what the lab does not read; `promtool` may know it."""


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Selector:
    """Series by name and labels; with a range in seconds, their samples over so long."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    range: float | None = None


@dataclass(frozen=True)
class Call:
    """A function and its arguments."""

    function: str
    arguments: tuple[Number | Selector | Call | Aggregation | Operation, ...]


@dataclass(frozen=True)
class Aggregation:
    """A vector made smaller: one element for each combination of some labels."""

    function: str
    by: tuple[str, ...]
    of: Number | Selector | Call | Aggregation | Operation


@dataclass(frozen=True)
class Operation:
    """Two sides and what stands between them; `on` names the labels that must agree, None for all."""

    sign: str
    left: Number | Selector | Call | Aggregation | Operation
    right: Number | Selector | Call | Aggregation | Operation
    on: tuple[str, ...] | None = None


Tree = Number | Selector | Call | Aggregation | Operation


def parse(text: str) -> Tree:
    """An expression as a tree; `PromQLError` says where it cannot be read."""
    reader = _Reader(text)
    tree = reader.operation(0)
    if reader.next[1]:
        reader.refuse("an operator")
    return tree


def seconds(duration: str) -> float:
    """A duration such as `1m30s` in seconds; `PromQLError` when it is none."""
    if duration != "0" and not re.fullmatch(f"(?:{_PART})+", duration):
        raise PromQLError(f"{duration!r} is no duration such as 5m or 1h30m")
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(_PART, duration)))


def metric_names(tree: Tree) -> set[str]:
    """The series that an expression reads."""
    if isinstance(tree, Selector):
        return {tree.name}
    if isinstance(tree, Operation):
        return metric_names(tree.left) | metric_names(tree.right)
    if isinstance(tree, Aggregation):
        return metric_names(tree.of)
    return {name for argument in tree.arguments for name in metric_names(argument)} if isinstance(tree, Call) else set()


class _Reader:
    """Reads from left to right; `next` is the kind and text of the token ahead, empty at the end."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.next: tuple[str, str] = ("", "")
        self.advance()

    def advance(self) -> str:
        """Go one token on; gives the one behind."""
        before = self.next[1]
        rest = self.text[self.place :]
        found = _TOKEN.match(rest)
        if found is None and rest.strip():
            self.next = ("sign", rest.strip()[0])
            self.refuse("something that the lab reads")
        self.next = (found.lastgroup or "", found[found.lastgroup or 0]) if found is not None else ("", "")
        self.place += found.end() if found is not None else len(rest)
        return before

    def refuse(self, wanted: str) -> None:
        got = repr(self.next[1]) if self.next[1] else "the end"
        raise PromQLError(
            f"{self.text.strip()!r}: {wanted} is needed where {got} stands; the lab reads a part of PromQL"
        )

    def take(self, sign: str) -> None:
        if self.next[1] != sign:
            self.refuse(repr(sign))
        self.advance()

    def names(self) -> tuple[str, ...]:
        """Names in parentheses."""
        self.take("(")
        found = []
        while self.next[1] != ")":
            if self.next[0] != "name":
                self.refuse("a label's name")
            found.append(self.advance())
            if self.next[1] == ",":
                self.advance()
        self.advance()
        return tuple(found)

    def operation(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self.single()
        left = self.operation(level + 1)
        while self.next[1] in _LEVELS[level] and self.next[0] != "text":
            sign, on = self.advance(), None
            if self.next[1] == "on":
                self.advance()
                on = self.names()
            left = Operation(sign, left, self.operation(level + 1), on)
        return left

    def single(self) -> Tree:
        kind, text = self.next
        if text == "(":
            self.advance()
            inner = self.operation(0)
            self.take(")")
            return inner
        if text == "-":
            self.advance()
            return Operation("-", Number(0.0), self.single())
        if kind == "number":
            return Number(float(self.advance()))
        if kind != "name":
            self.refuse("a number, a metric or a function")
        name = self.advance()
        if name in AGGREGATIONS:
            return self.aggregation(name)
        if name.lower() in ("inf", "nan"):
            return Number(float(name))
        if self.next[1] != "(":
            return self.selector(name)
        if name not in FUNCTIONS:
            raise PromQLError(f"{self.text.strip()!r}: the lab knows no {name!r}; it knows {', '.join(FUNCTIONS)}")
        self.advance()
        arguments = [self.operation(0)]
        while self.next[1] == ",":
            self.advance()
            arguments.append(self.operation(0))
        self.take(")")
        if len(arguments) != FUNCTIONS[name]:
            raise PromQLError(f"{self.text.strip()!r}: {name}() takes {FUNCTIONS[name]} argument(s)")
        return Call(name, tuple(arguments))

    def aggregation(self, name: str) -> Tree:
        by: tuple[str, ...] = ()
        before = self.next[1] == "by"
        if before:
            self.advance()
            by = self.names()
        self.take("(")
        of = self.operation(0)
        self.take(")")
        if not before and self.next[1] == "by":
            self.advance()
            by = self.names()
        return Aggregation(name, by, of)

    def selector(self, name: str) -> Tree:
        labels = []
        if self.next[1] == "{":
            self.advance()
            while self.next[1] != "}":
                label = self.advance()
                self.take("=")
                if self.next[0] != "text":
                    self.refuse("a text in quotation marks")
                labels.append((label, self.advance()[1:-1]))
                if self.next[1] == ",":
                    self.advance()
            self.advance()
        if self.next[1] != "[":
            return Selector(name, tuple(labels))
        self.advance()
        if self.next[0] != "duration":
            self.refuse("a duration such as 5m")
        length = seconds(self.advance())
        self.take("]")
        return Selector(name, tuple(labels), length)
