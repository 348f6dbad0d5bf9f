"""Alert rules, from the file that Prometheus reads, evaluated over simulated time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from labkit.errors import LabError
from labkit.observe.evaluation import evaluate
from labkit.observe.promql import PromQLError, Tree, metric_names, parse, seconds
from labkit.observe.series import Labels, Series

PROVISIONED = files("labkit.observe") / "provisioned"
INTERVAL = 15.0  # seconds between two evaluations, unless the file says otherwise


@dataclass(frozen=True)
class Rule:
    """One alert rule.

    Parameters
    ----------
    name: what the alert is called.
    expression: PromQL; the alert is active for each element of its value.
    hold: the seconds for which it must be active before it fires.
    labels, annotations: as in the file.
    interval: seconds between two evaluations.
    """

    name: str
    expression: str
    hold: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    interval: float = INTERVAL

    @property
    def tree(self) -> Tree:
        """The expression, parsed."""
        return parse(self.expression)

    @property
    def look(self) -> str:
        """What to look at when it fires."""
        return self.annotations.get("look", "")


class Alert(NamedTuple):
    """One time that an alert was active.

    Parameters
    ----------
    rule: its name.
    labels: of the element that it was active for.
    since: when it became active, in seconds.
    fired: when it began to fire; None when it never did.
    until: when it was last active.
    value: the highest value of the expression meanwhile.
    """

    rule: str
    labels: Labels
    since: float
    fired: float | None
    until: float
    value: float


def load_rules(path: str | Path | None = None) -> tuple[Rule, ...]:
    """The alert rules of a file; the lab's own, if none is named. `LabError` says what cannot be read."""
    import yaml  # comes with JupyterLab

    try:
        text = (PROVISIONED / "prometheus" / "rules.yml").read_text() if path is None else Path(path).read_text()
        groups = yaml.safe_load(text)["groups"]
        found = [(group.get("interval", "15s"), rule) for group in groups for rule in group["rules"]]
        rules = tuple(_rule(rule, seconds(str(interval))) for interval, rule in found if "alert" in rule)
    except (yaml.YAMLError, OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path or 'rules.yml'} is no file of Prometheus rules: {error}") from error
    recorded = {rule["record"] for _, rule in found if "record" in rule}
    for rule in rules:
        if names := sorted(recorded & metric_names(rule.tree)):
            raise LabError(f"rule {rule.name} reads {names[0]}, which a recording rule makes; write its expression out")
    return rules


def _rule(said: dict[str, Any], interval: float) -> Rule:
    name, expression = str(said["alert"]), " ".join(str(said["expr"]).split())
    try:
        parse(expression)
    except PromQLError as error:
        raise PromQLError(f"rule {name}: {error}") from error
    hold = seconds(str(said.get("for", "0s")))
    labels, annotations = dict(said.get("labels") or {}), dict(said.get("annotations") or {})
    return Rule(name, expression, hold, labels, annotations, interval or INTERVAL)


def active(rule: Rule, series: Series, until: float) -> list[Alert]:
    """Each time that an alert was active, up to a second, in the order in which they began.

    Parameters
    ----------
    rule: the rule.
    series: what was scraped.
    until: the last second at which it is evaluated.
    """
    tree, now = rule.tree, 0.0
    open_: dict[Labels, Alert] = {}
    over: list[Alert] = []
    while now <= until:
        vector = evaluate(tree, series, now)
        if not isinstance(vector, dict):
            raise PromQLError(f"rule {rule.name} gives a number; an alert needs a comparison of series")
        for labels in [labels for labels in open_ if labels not in vector]:
            over.append(open_.pop(labels))
        for labels, value in vector.items():
            before = open_.get(labels, Alert(rule.name, labels, now, None, now, -math.inf))
            fires = before.fired is None and now - before.since >= rule.hold
            fired = now if fires else before.fired
            open_[labels] = before._replace(fired=fired, until=now, value=max(before.value, value))
        now += rule.interval
    return sorted([*over, *open_.values()], key=lambda alert: (alert.since, alert.labels))


def states(rules: Iterable[Rule], series: Series, until: float) -> dict[str, list[Alert]]:
    """The alerts of each rule, by the rule's name; a rule that was never active has none."""
    return {rule.name: active(rule, series, until) for rule in rules}
