"""Logs, traces, metrics and alerts, all derived from what an execution left behind."""

from labkit.observe.alerting import Alerts, alerts
from labkit.observe.measured import Metrics, metrics
from labkit.observe.meter import Meter
from labkit.observe.open_telemetry import console, otlp
from labkit.observe.prometheus import Endpoint, registry, serve
from labkit.observe.record import Record, print_event, records
from labkit.observe.rules import Rule, load_rules
from labkit.observe.span import Span
from labkit.observe.structured_log import Logs, logs
from labkit.observe.tracing import Spans, spans

__all__ = [
    "Alerts",
    "Endpoint",
    "Logs",
    "Meter",
    "Metrics",
    "Record",
    "Rule",
    "Span",
    "Spans",
    "alerts",
    "console",
    "load_rules",
    "logs",
    "metrics",
    "otlp",
    "print_event",
    "records",
    "registry",
    "serve",
    "spans",
]
