"""Spans and metrics leave the notebook in the protocols of OpenTelemetry and Prometheus."""

import http.server
import json
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import labkit
from labkit import LabError
from labkit.incidents.causes import ROOT_CAUSES
from labkit.incidents.production import Production
from labkit.observe import Meter, alerts, otlp, registry, serve
from labkit.observe.evaluation import evaluate
from labkit.observe.open_telemetry import sdk_spans
from labkit.observe.promql import metric_names, parse
from labkit.processes.live_run import live

PROVISIONED = Path(labkit.__file__).parent / "observe" / "provisioned"
START = 1_767_258_000_000_000_000  # nanoseconds: 2026-01-01 at 09:00


@pytest.fixture(scope="module")
def trace():
    return Production(orders=45, on_sigterm="die").run()


def families(url):
    parser = pytest.importorskip("prometheus_client.parser")
    text = urllib.request.urlopen(url).read().decode()
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def values(found):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in found.values()
        for sample in family.samples
    }


def test_metrics_are_scraped_over_http_as_they_are(trace):
    meter = trace.metrics().meter
    with serve(trace) as endpoint:
        assert endpoint.url.startswith("http://127.0.0.1:")
        found = families(endpoint.url)
    assert values(found) == {(name, labels): value for name, labels, value in meter.samples()}
    kinds = {one.name.removesuffix("_total"): one.kind for one in meter.instruments}
    assert {name: family.type for name, family in found.items()} == kinds
    assert all(family.documentation for family in found.values())


def test_a_live_run_is_scraped_while_it_goes_on():
    meter = Meter(queue="orders")
    with serve(meter) as endpoint:
        key = ("labkit_messages_sent_total", (("queue", "orders"),))
        before = values(families(endpoint.url))[key]
        meter.emit({"event": "job.enqueued", "queue": "orders", "job_id": "1"})
        after = values(families(endpoint.url))[key]
    assert (before, after) == (0, 1)


def test_the_log_of_a_real_process_is_served_as_it_comes():
    event = {"event": "job.enqueued", "job_id": "1"}
    code = f"from labkit.observe import print_event; print('hello'); print_event({event})"
    read = threading.Event()

    def lines(process):
        yield from process.stdout
        read.set()

    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, serve(lines(process)) as endpoint:
        assert read.wait(timeout=60)
        found = values(families(endpoint.url))
    assert found["labkit_messages_sent_total", (("queue", "jobs"),)] == 1


def test_a_live_run_leaves_the_same_kinds_of_logs_spans_and_metrics(redis_url):
    shop = Production(orders=3, every=0.1, job_seconds=0.1, visibility_timeout=20, deploy=0, ready=0, poll=0.1)
    trace = live(shop, redis_url, seconds=60)
    found = trace.metrics()
    assert found.value("labkit_messages_sent_total") == 3
    assert found.value("labkit_messages_received_total") == 3
    assert found.value("labkit_effects_total", effect="mail") == 3
    names = [span.name for span in trace.spans().of_job("q-7801")]
    assert sorted(names)[:3] == ["ack orders", "mail", "process orders"]


def test_an_endpoint_that_is_closed_answers_no_more():
    endpoint = serve(Meter())
    endpoint.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(endpoint.url)


def test_the_registry_of_prometheus_client_that_everybody_shares_stays_clean(trace):
    shared = pytest.importorskip("prometheus_client").REGISTRY
    own = registry(trace)
    assert any(family.name.startswith("labkit_") for family in own.collect())
    assert not any(family.name.startswith("labkit_") for family in shared.collect())


@contextmanager
def collector(status=200):
    """A receiver of OTLP over HTTP; gives its address and the requests it has read."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    received = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") is None:
                received.append((self.path, service.ExportTraceServiceRequest.FromString(body)))
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(service.ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def test_a_collector_receives_every_span_with_its_times_ids_and_links(trace):
    spans = trace.spans()
    with collector() as (url, received):
        sent = spans.export(otlp(url))
    got = {}
    for path, request in received:
        assert path == "/v1/traces"
        for resource in request.resource_spans:
            about = attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                got.update({span.span_id: (span, about) for span in scope.spans})
    kept = [span for span in spans if not span.lost]
    assert sent == len(got) == len(kept) < len(spans)
    for span in kept:
        wire, about = got[span.span_id.to_bytes(8)]
        assert wire.trace_id == span.trace_id.to_bytes(16)
        assert (wire.name, about["service.instance.id"]) == (span.name, span.worker)
        assert wire.start_time_unix_nano == START + span.start * 1_000
        assert wire.end_time_unix_nano == START + span.end * 1_000
        assert wire.parent_span_id == (span.parent.span_id.to_bytes(8) if span.parent else b"")
        assert [link.span_id for link in wire.links] == [link.span_id.to_bytes(8) for link in span.links]
        assert len(wire.events) == len(span.moments)
        assert attributes(wire.attributes).items() >= span.attributes.items()


def test_both_attempts_at_a_redelivered_job_arrive_linked_to_one_producer():
    spans = ROOT_CAUSES["short visibility timeout"].run().spans()
    job = next(span for span in spans.named("process") if span.attributes["labkit.message.delivery_count"] == 2)
    own = sdk_spans(spans.of_job(job.attributes["messaging.message.id"]))
    (sent,) = (span for span in own if span.name == "send orders")
    process = [span for span in own if span.name == "process orders"]
    assert len(process) >= 2
    assert {span.links[0].context.span_id for span in process} == {sent.context.span_id}
    assert {span.resource.attributes["service.instance.id"] for span in process} == {"old-1", "old-2"}


def test_a_collector_that_refuses_is_said_so(trace):
    with collector(status=400) as (url, _), pytest.raises(ConnectionError, match="could not send"):
        trace.spans()[:3].export(otlp(url))


def test_the_console_gets_json(trace, capsys):
    count = trace.spans()[:2].export()
    text = capsys.readouterr().out
    first, _ = json.JSONDecoder().raw_decode(text)
    assert count == 2
    assert first["name"] == "send orders"
    assert first["start_time"] == "2026-01-01T09:00:00.000000Z"


@pytest.mark.parametrize(
    ("module", "action"),
    [
        ("prometheus_client", lambda trace: registry(trace)),
        ("prometheus_client", lambda trace: serve(trace)),
        ("opentelemetry.sdk.trace.export", lambda trace: trace.spans().export()),
        ("opentelemetry.exporter.otlp.proto.http.trace_exporter", lambda trace: otlp()),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_to_do(monkeypatch, trace, module, action):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LabError, match=r"pip install -e '\.\[observe\]'"):
        action(trace)


def test_logs_spans_metrics_and_alerts_need_no_library():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('opentelemetry', 'prometheus_client')))\n"
        "from labkit.incidents.production import Production\n"
        "from labkit.observe import alerts, logs\n"
        "trace = Production(orders=5, deploy=0, ready=0).run()\n"
        "print(len(logs(trace)) > 0, len(trace.spans()) > 0, bool(repr(trace.metrics())), alerts(trace).fired)\n"
        "trace.spans().waterfall().png(), alerts(trace).timeline().png()\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True True True {}"


def dashboard():
    return json.loads((PROVISIONED / "grafana" / "dashboards" / "workers.json").read_text())


def expressions():
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    return [*found, *(one["expr"] for one in dashboard()["annotations"]["list"])]


def test_every_panel_shows_something_when_something_happens():
    runs = [alerts(ROOT_CAUSES[name].run()) for name in ("lock kept by the dead", "no drain, idempotent")]
    exported = {name for one in Meter().instruments for name in one.series}
    for expression in expressions():
        tree = parse(expression)
        assert metric_names(tree) <= exported, expression
        moments = [(run, at) for run in runs for at in range(60, int(run.seconds), 30)]
        assert any(evaluate(tree, run.series, at) for run, at in moments), expression


def test_a_dashboard_with_a_misspelt_metric_would_be_found():
    exported = {name for one in Meter().instruments for name in one.series}
    assert not metric_names(parse("sum(rate(labkit_messages_send_total[1m]))")) <= exported


def test_every_panel_says_what_it_shows_and_stands_apart():
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard()["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["description"].endswith(".") for panel in dashboard()["panels"])
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(places)


def test_grafana_is_told_of_the_dashboard_and_of_prometheus():
    folder = PROVISIONED / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "labkit.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "labkit.yml").read_text())["providers"]
    used = {target["datasource"]["uid"] for panel in dashboard()["panels"] for target in panel["targets"]}
    assert used == {source["uid"]}
    assert provider["type"] == "file"
