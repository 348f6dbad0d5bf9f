"""Metrics as prometheus-client has them, and an address where they can be scraped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIServer

from labkit.observe.extra import need
from labkit.observe.instrument import Instrument
from labkit.observe.meter import Meter
from labkit.observe.record import Record
from labkit.trace import Trace

Source = Meter | Trace | Iterable[Record] | Iterator[Record | Mapping[str, Any] | str]

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector


def registry(source: Meter | Trace | Iterable[Record]) -> CollectorRegistry:
    """A registry of its own with every metric; nothing is added to prometheus-client's default one.

    Parameters
    ----------
    source: a meter, whose metrics are exported as they are when somebody scrapes; or a trace, or records, for what
        they were at the end.
    """
    own: CollectorRegistry = need("prometheus_client").CollectorRegistry(auto_describe=False)
    own.register(_collector(source if isinstance(source, Meter) else Meter.of(source)))
    return own


def _collector(source: Meter) -> Collector:
    core = need("prometheus_client.metrics_core")
    make = {"counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily}

    class LabCollector(need("prometheus_client.registry").Collector):  # type: ignore[misc]
        """Hands over what a meter knows."""

        def collect(self) -> Iterator[Any]:
            source.samples()  # brings what grows by itself up to date
            for one in source.instruments:
                kind = make.get(one.kind, core.HistogramMetricFamily)
                family = kind(one.name, one.says, labels=one.labels)
                _fill(family, one)
                yield family

    return LabCollector()


def _fill(family: Any, one: Instrument) -> None:
    for sample in one.samples():
        family.add_sample(sample.name, dict(sample.labels), sample.value)


@dataclass
class Endpoint:
    """An address at which metrics can be scraped; ends with `close`, or with its `with` block.

    Parameters
    ----------
    url: where.
    registry: what is served.
    """

    url: str
    registry: CollectorRegistry
    _server: WSGIServer = field(repr=False)
    _thread: Thread = field(repr=False)

    def close(self) -> None:
        """Serve nothing any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(source: Source, port: int = 0, address: str = "127.0.0.1") -> Endpoint:
    """Serve metrics over HTTP.

    Parameters
    ----------
    source: a trace, or records, for what they come to; a meter that is told of each event with `meter.emit`; or an
        iterator of events, or of lines such as a worker's process prints on its `stdout`, which is followed meanwhile.
    port: 0 for a free one.
    address: where to listen; loopback, if nothing is said, so that no other machine sees it.
    """
    if isinstance(source, Iterator):
        meter = Meter()
        Thread(target=meter.follow, args=(source,), daemon=True).start()
        source = meter
    own = registry(source)
    server, thread = need("prometheus_client").start_http_server(port, addr=address, registry=own)
    return Endpoint(f"http://{address}:{server.server_port}/metrics", own, server, thread)
