"""Asks promtool the same as the lab's own evaluator."""

import math
import re
import shutil
import subprocess

import pytest
import yaml

STEP = 5  # seconds between two places in promtool's notation of series


def run(*arguments, cwd):
    """Run promtool; skips the test where there is none."""
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool on this machine (system package `prometheus`)")
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd)


def notation(series, names):
    """Scraped series as promtool's input: a value for each place, `_` where nothing was scraped."""
    found = []
    for name in sorted(names):
        for labels, points in series.kept.get(name, {}).items():
            inner = ",".join(f'{label}="{value}"' for label, value in labels)
            places = ["_"] * (int(points[-1][0]) // STEP + 1)
            for seconds, value in points:
                places[round(seconds / STEP)] = repr(value)
            found.append({"series": f"{name}{{{inner}}}", "values": " ".join(places)})
    return found


def write_test(path, rules, series, names, alerts=(), expressions=()):
    """A file of tests for promtool."""
    test = {
        "interval": f"{STEP}s",
        "input_series": notation(series, names),
        "alert_rule_test": list(alerts),
        "promql_expr_test": list(expressions),
    }
    path.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "15s", "tests": [test]}, width=1_000_000)
    )


def expected_alerts(found, every=15):
    """What fires at each evaluation, by the lab's reckoning, in promtool's words."""
    tests = []
    for rule in found.rules:
        now = 0
        while now <= found.seconds:
            firing = [
                alert
                for alert in found.states[rule.name]
                if alert.fired is not None and alert.fired <= now <= alert.until
            ]
            tests.append(
                {
                    "eval_time": f"{now}s",
                    "alertname": rule.name,
                    "exp_alerts": [
                        {
                            "exp_labels": {**rule.labels, **dict(alert.labels)},
                            "exp_annotations": {
                                name: filled(text, dict(alert.labels)) for name, text in rule.annotations.items()
                            },
                        }
                        for alert in firing
                    ],
                }
            )
            now += every
    return tests


def filled(text, labels):
    """An annotation with its labels filled in."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def same_value(expression, seconds, vector):
    """Tests that promtool finds these values, but for the last digits, and no others."""
    ignored = [value for value in vector.values() if math.isnan(value)]
    yield {
        "expr": f"count({expression}) or vector(0)",
        "eval_time": f"{seconds}s",
        "exp_samples": [{"value": len(vector)}],
    }
    for value in sorted(set(vector.values()) - set(ignored)):
        room = max(abs(value) * 1e-9, 1e-12)
        equal = sum(abs(other - value) <= room for other in vector.values())
        yield {
            "expr": f"count(({expression}) >= {value - room!r} and ({expression}) <= {value + room!r})",
            "eval_time": f"{seconds}s",
            "exp_samples": [{"value": equal}],
        }
