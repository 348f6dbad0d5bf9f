"""Spans through the OpenTelemetry SDK, with the lab's own times and ids, to whatever takes spans."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from labkit.interception import EPOCH
from labkit.observe.extra import need
from labkit.observe.span import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter


def console() -> SpanExporter:
    """An exporter that prints each span as JSON."""
    exporter: SpanExporter = need("opentelemetry.sdk.trace.export").ConsoleSpanExporter(out=sys.stdout)
    return exporter


def otlp(url: str = "http://127.0.0.1:4318", timeout: float = 5) -> SpanExporter:
    """An exporter that sends spans to a collector, Jaeger or Tempo, in OTLP over HTTP.

    Parameters
    ----------
    url: where it listens, without `/v1/traces`.
    timeout: seconds to wait for its answer.
    """
    module = need("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    exporter: SpanExporter = module.OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=timeout)
    return exporter


def sdk_spans(spans: Iterable[Span]) -> list[ReadableSpan]:
    """The spans as the SDK has them, without those that no worker lived to export.

    Each worker is a resource of its own: `service.instance.id` is its name, `service.version` its release.
    """
    memory = need("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    _Replay(memory).play([span for span in spans if not span.lost])
    found: list[ReadableSpan] = list(memory.get_finished_spans())
    return found


def export(spans: Iterable[Span], exporter: SpanExporter) -> int:
    """Send spans; returns how many were taken. `ConnectionError` when the exporter could not send them."""
    found = sdk_spans(spans)
    if found and exporter.export(found).name != "SUCCESS":
        raise ConnectionError(f"{type(exporter).__name__} could not send {len(found)} spans; does somebody listen?")
    return len(found)


class _Replay:
    """Lets the SDK make the spans again, at the lab's times and with the lab's ids."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter
        self.tracers: dict[tuple[str, str], Any] = {}
        self.next: Span | None = None

    def play(self, spans: list[Span]) -> None:
        """Make each span, in order."""
        api = need("opentelemetry.trace")
        for span in spans:
            self.next = span
            made = self.tracer(span).start_span(
                span.name,
                context=self.around(span),
                kind=api.SpanKind[span.kind],
                attributes=dict(span.attributes),
                links=[api.Link(self.context(link)) for link in span.links],
                start_time=_nanoseconds(span.start),
            )
            for moment in span.moments:
                made.add_event(moment.name, dict(moment.attributes), _nanoseconds(moment.time))
            if span.error:
                made.set_attribute("error.type", span.error)
                made.set_status(api.StatusCode.ERROR, span.error)
            made.end(_nanoseconds(span.end))

    def context(self, span: Span) -> Any:
        api = need("opentelemetry.trace")
        sampled = api.TraceFlags(api.TraceFlags.SAMPLED)
        return api.SpanContext(span.trace_id, span.span_id, is_remote=True, trace_flags=sampled)

    def around(self, span: Span) -> Any:
        api, context = need("opentelemetry.trace"), need("opentelemetry.context").Context()
        if span.parent is None:
            return context
        return api.set_span_in_context(api.NonRecordingSpan(self.context(span.parent)), context)

    def tracer(self, span: Span) -> Any:
        """The tracer of a worker's release."""
        release = str(span.attributes.get("deployment.id", ""))
        if (span.worker, release) not in self.tracers:
            trace, export = need("opentelemetry.sdk.trace"), need("opentelemetry.sdk.trace.export")
            about = {"service.name": "labkit-worker", "service.instance.id": span.worker}
            about |= {"service.version": release, "deployment.id": release} if release else {}
            resource = need("opentelemetry.sdk.resources").Resource(about)
            provider = trace.TracerProvider(
                id_generator=self.ids(), resource=resource, shutdown_on_exit=False, sampler=_always()
            )
            provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))
            self.tracers[span.worker, release] = provider.get_tracer("labkit.observe")
        return self.tracers[span.worker, release]

    def ids(self) -> Any:
        """Gives the ids of the span that is being made."""
        replay = self

        class Planned(need("opentelemetry.sdk.trace.id_generator").IdGenerator):  # type: ignore[misc]
            """Ids that were drawn before, from a seed."""

            def generate_span_id(self) -> int:
                assert replay.next is not None
                return replay.next.span_id

            def generate_trace_id(self) -> int:
                assert replay.next is not None
                return replay.next.trace_id

        return Planned()


def _always() -> Any:
    return need("opentelemetry.sdk.trace.sampling").ALWAYS_ON


def _nanoseconds(time: int) -> int:
    return EPOCH * 1_000_000_000 + time * 1_000
