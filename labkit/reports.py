"""Verdicts and traces for machines: JSON, and JUnit XML for continuous integration."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from labkit.trace import Trace
from labkit.verdict import Verdict


def as_json(answer: Verdict | Trace) -> dict[str, Any]:
    """Plain data: the same for the same answer, so seconds are left out."""
    if isinstance(answer, Trace):
        return {
            "schedule": str(answer.schedule),
            "length": answer.length,
            "over": answer.over,
            "violations": [vars_of(broken) for broken in answer.violations],
            "events": [
                {
                    "number": event.number,
                    "choice": str(event.choice),
                    "time": event.time,
                    "kind": event.kind,
                    "text": event.text,
                    "reply": event.reply,
                    "line": str(event.line) if event.line else None,
                    "ending": str(event.ending) if event.ending else None,
                }
                for event in answer.events
            ],
        }
    return {
        "outcome": answer.outcome,
        "bounds": str(answer.bounds),
        "seed": answer.bounds.seed,
        "states": answer.states,
        "symmetry": answer.bounds.symmetry,
        "transitions": answer.transitions,
        "notes": list(answer.notes),
        "headline": answer.headline,
        "properties": {
            name: as_json(answer.violations[name]) if name in answer.violations else None for name in answer.properties
        },
    }


def vars_of(broken: Any) -> dict[str, Any]:
    """A violation as plain data."""
    return {"property": broken.property, "number": broken.number, "at_end": broken.at_end}


def as_junit(verdict: Verdict) -> str:
    """JUnit XML: a test case for each property; an undetermined one is an error, never a pass."""
    failures = len(verdict.violations)
    names = verdict.properties or ("no property is stated",)
    suite = ElementTree.Element("testsuite", name=verdict.scenario, tests=str(len(names)), failures=str(failures))
    errors = 0
    for name in names:
        case = ElementTree.SubElement(suite, "testcase", classname=verdict.scenario, name=name)
        if name in verdict.violations:
            trace = verdict.violations[name]
            failure = ElementTree.SubElement(case, "failure", message=verdict.replay_line(trace))
            failure.text = trace.table(source=True)
        elif not verdict.complete or not verdict.properties:
            errors += 1
            ElementTree.SubElement(case, "error", message=verdict.headline)
    suite.set("errors", str(errors))
    return ElementTree.tostring(suite, encoding="unicode")


def as_junit_error(scenario: str, message: str) -> str:
    """JUnit XML for a scenario that could not be searched at all."""
    suite = ElementTree.Element("testsuite", name=scenario, tests="1", failures="0", errors="1")
    case = ElementTree.SubElement(suite, "testcase", classname=scenario, name="the scenario can be searched")
    ElementTree.SubElement(case, "error", message=message)
    return ElementTree.tostring(suite, encoding="unicode")
