"""Logs, spans and metrics say what happened in a trace, and say the same each time."""

import dataclasses
import json
import math
import time

import pytest
from matplotlib.colors import to_hex

from labkit import Lab, replay, run
from labkit.incidents import DEPLOY
from labkit.incidents.production import Production
from labkit.observe import Meter, Record, load_rules, logs, metrics, print_event, records, spans
from labkit.observe.delivery import deliveries
from labkit.observe.instrument import Instrument
from labkit.observe.span import Span
from labkit.plots.span_rows import both_at_work, waterfall
from labkit.plots.style import ALARM_PAPER
from tests.pictures import assert_readable

INCIDENT = Production(
    orders=40,
    every=10,
    job_seconds=6,
    first_job_seconds=90,
    visibility_timeout=30,
    poll=5,
    on_sigterm="ignore",
    deploy=280,
    ready=240,
    lock="cache key",
)
TWICE = "q-7826"


@pytest.fixture(scope="module")
def incident():
    return INCIDENT.run()


@pytest.fixture(scope="module")
def killed():
    return Production(orders=60, on_sigterm="die").run()


def test_every_line_of_the_log_is_json_with_its_ids(incident):
    lines = [json.loads(line) for line in logs(incident).jsonl().splitlines()]
    started = [line for line in lines if line["event"] == "job.started"]
    assert len(started) == 41
    for line in started:
        assert {"time", "job_id", "event_id", "order_id", "worker_id", "deployment_id", "attempt"} <= line.keys()
        assert {"trace_id", "span_id", "step"} <= line.keys()
    assert lines == sorted(lines, key=lambda line: line["time"])


def test_two_lines_of_the_log_tell_the_story(incident):
    one, two = logs(incident).where(event="job.started", job_id=TWICE)
    assert (one["time"], two["time"]) == ("2026-01-01T09:04:10.000Z", "2026-01-01T09:04:43.000Z")
    assert (one["attempt"], two["attempt"]) == (1, 2)
    assert one["worker_id"] != two["worker_id"]
    assert one["event_id"] == two["event_id"]
    assert one["trace_id"] == two["trace_id"]


def test_logs_can_be_chosen_and_cut(incident):
    acks = logs(incident).where(lambda line: line.get("result") == "stale", event=["job.acked", "job.released"])
    assert [line["job_id"] for line in acks.only("job_id", "result")] == [TWICE]
    assert acks[0]["worker_id"] == "new-2"
    assert len(repr(logs(incident)).splitlines()) == 41  # the first forty, and how many more there are


def test_what_the_lab_saw_is_in_the_log_too(killed):
    assert [line["worker_id"] for line in logs(killed).where(event="worker.killed")] == ["old-1", "old-2"]
    again = [line for line in logs(killed).where(event="effect.applied", effect="mail") if line["attempt"] > 1]
    assert again
    assert logs(killed).where(event="lab.violated").lines[0]["invariant"] == "at most one mail for each order"


def test_a_line_that_is_no_event_is_a_message():
    def worker():
        print("hello")
        print('{"no": "event"}')

    def scenario(lab: Lab) -> None:
        r = lab.redis()
        lab.worker("A", lambda: (worker(), r.get("k")))

    found = [record.fields for record in records(replay(scenario, "A"))]
    assert found == [
        {"event": "worker.printed", "message": "hello", "worker_id": "A"},
        {"event": "worker.printed", "message": '{"no": "event"}', "worker_id": "A"},
    ]


def test_both_deliveries_stand_under_one_producer_and_link_to_it(incident):
    found = incident.spans().of_job(TWICE)
    (sent,) = found.named("send")
    process = found.named("process")
    assert [span.kind for span in (sent, *process)] == ["PRODUCER", "CONSUMER", "CONSUMER"]
    assert {span.trace_id for span in found} == {sent.trace_id}
    assert all(span.parent is sent and span.links == (sent,) for span in process)
    assert [span.attributes["labkit.message.delivery_count"] for span in process] == [1, 2]
    assert [(span.start / 1e6, span.end / 1e6) for span in process] == [(250, 340), (283, 373)]
    assert both_at_work(found) == [(283_000_000, 340_000_000)]


def test_spans_have_the_names_of_the_semantic_conventions(incident):
    found = incident.spans().of_job(TWICE)
    said = {(span.name, span.attributes.get("messaging.operation.type")) for span in found if span.kind != "INTERNAL"}
    kinds = {("send orders", "send"), ("receive orders", "receive"), ("process orders", "process")}
    assert said == {*kinds, ("ack orders", "settle"), ("mail", None), ("push", None)}
    assert all(span.attributes["messaging.client.id"] == span.worker for span in found)
    process = found.named("process")[0]
    assert process.attributes["messaging.message.id"] == TWICE
    assert process.attributes["labkit.idempotency.key"] == "evt-926"
    assert process.attributes["deployment.id"] == "release-42"


def test_a_redelivery_says_in_its_span_that_its_ack_came_too_late(incident):
    acks = incident.spans().of_job(TWICE).named("ack")
    assert [(span.worker, span.error) for span in acks] == [("new-1", ""), ("new-2", "stale")]


def test_the_span_of_a_killed_worker_is_lost(killed):
    lost = [span for span in killed.spans() if span.lost and span.kind == "CONSUMER"]
    assert {span.worker for span in lost} == {"old-1", "old-2"}
    assert all(span.error == "killed" and span.end == 243_000_000 for span in lost)


def test_ids_of_spans_follow_the_seed_and_nothing_else(incident):
    again = INCIDENT.run().spans()
    assert [(span.trace_id, span.span_id) for span in again] == [(s.trace_id, s.span_id) for s in incident.spans()]
    other = spans(incident, seed=1)
    assert not {span.span_id for span in other} & {span.span_id for span in again}
    assert len({span.span_id for span in again}) == len(again)


def test_of_workers_that_log_nothing_the_queue_tells():
    quiet = INCIDENT.but(orders=12, ready=0, deploy=0)
    loud = quiet.run()
    silent = dataclasses.replace(loud, events=tuple(dataclasses.replace(event, printed="") for event in loud.events))
    names = ("sent", "received", "redelivered", "acked", "released")
    for name in (f"labkit_messages_{name}_total" for name in names):
        assert metrics(silent).value(name) == metrics(loud).value(name)
    kept = {"job.enqueued", "job.received", "job.started", "job.acked"}
    ids = ("event", "job_id", "event_id", "order_id", "worker_id", "attempt", "queue")
    one, other = (
        [{name: record.fields.get(name) for name in ids} for record in records(trace) if record.event in kept]
        for trace in (silent, loud)
    )
    assert one == other


def test_a_counterexample_has_spans_and_metrics_too():
    trace = DEPLOY.explore({"ack last"}, "slow job").violations["one mail for the order"]
    first, second = trace.spans().named("process")
    assert (first.worker, second.worker) == ("old", "later")
    assert both_at_work(trace.spans()) == [(35_000_000, 45_000_000)]
    assert [span.parent for span in trace.spans().named("section")] == [first, second]
    assert trace.metrics().value("labkit_messages_redelivered_total") == 1
    assert trace.metrics().value("labkit_messages_acked_total", result="stale") == 1


def test_two_in_one_critical_section_at_once_are_shaded_although_nobody_logged_a_job():
    def work(lab, after, section):
        time.sleep(after)
        with lab.section(section):
            time.sleep(0.02)

    def picture(sections):
        def scenario(lab: Lab) -> None:
            for name, after, section in zip("AB", (0.1, 0.115), sections, strict=True):
                lab.worker(name, work, lab, after, section)

        found = run(scenario).spans()
        return both_at_work(found), waterfall(found).alt

    together, told = picture(("completing", "completing"))
    assert together == [(115_000, 120_000)]
    assert "section completing: entered 2 times by A, B; 5 ms of it by two at once" in told
    apart, told = picture(("reading", "writing"))
    assert apart == []
    assert "section reading, section writing: entered 2 times by A, B. It begins" in told


def test_a_waterfall_explains_the_marks_that_it_has_and_no_others(incident):
    def calm(lab: Lab) -> None:
        lab.worker("A", lambda: time.sleep(1))
        lab.worker("B", lambda: time.sleep(1))

    words = {text.get_text() for text in waterfall(run(calm).spans()).figure.axes[0].texts}
    assert "bar" not in " ".join(words)
    assert "Run 2 times by A, B. It begins 1 s after the start." in words
    twice = waterfall(incident.spans().of_job(TWICE))
    assert "shaded: two at once" in {text.get_text().rpartition(" · ")[2] for text in twice.figure.axes[0].texts}


def test_workers_that_log_nothing_have_spans_all_the_same():
    def work(lab, r, mail):
        with lab.section("critical"):
            r.set("k", "v")
            mail.send("x")

    def scenario(lab: Lab) -> None:
        for name in "AB":
            lab.worker(name, work, lab, lab.redis(), lab.mail)

    found = replay(scenario, "A B A crash:B").spans()
    own = sorted((span.depth, span.name) for span in found if span.worker == "A")
    assert own == [(0, "run A"), (1, "mail"), (1, "section critical")]
    assert [moment.name for moment in found.named("section")[0].moments] == ["SET"]
    assert [span.lost for span in found if span.worker == "B"] == [True, True]


@pytest.mark.parametrize("job", [TWICE, "q-7801"])
def test_the_waterfall_can_be_read(incident, job):
    picture = incident.spans().of_job(job).waterfall()
    assert_readable(picture)
    assert ("two at once" in picture.alt) == (job == TWICE)


def test_time_in_which_three_workers_have_a_job_is_counted_once():
    works = [
        Span("order", "CONSUMER", worker, job, number, start * 1_000_000, (start + 100) * 1_000_000)
        for number, (worker, job, start) in enumerate([("A", 1, 0), ("B", 1, 30), ("C", 1, 60), ("A", 2, 40)])
    ]
    assert both_at_work(works) == [(30_000_000, 130_000_000)]
    assert "100 s of it by two at once" in waterfall(works).alt


@pytest.mark.parametrize(
    ("microseconds", "told"), [(999_600, "1 s"), (999_400, "999 ms"), (999_700_000, "1,000 s"), (12_000_000, "12 s")]
)
def test_how_long_a_span_took_is_told_without_an_exponent(microseconds, told):
    picture = waterfall([Span("order", "CONSUMER", "A", 1, 0, 0, microseconds)])
    assert told in {text.get_text() for text in picture.figure.axes[0].texts}


def test_the_waterfall_marks_what_was_cut_off_and_shades_what_two_did_at_once(incident, killed):
    lost = next(span for span in killed.spans() if span.lost and span.kind == "CONSUMER")
    cut = killed.spans().of_job(lost.attributes["messaging.message.id"]).waterfall()
    assert [line.get_marker() for line in cut.figure.axes[0].lines].count("x") == sum(
        span.lost and span.start < span.end for span in killed.spans().of_job(lost.attributes["messaging.message.id"])
    )
    for job, times in ((TWICE, 1), ("q-7801", 0)):
        patches = incident.spans().of_job(job).waterfall().figure.axes[0].patches
        assert sum(to_hex(patch.get_facecolor()) == ALARM_PAPER.lower() for patch in patches) == times


def test_the_waterfall_of_a_killed_worker_can_be_read(killed):
    lost = next(span for span in killed.spans() if span.lost and span.kind == "CONSUMER")
    picture = killed.spans().of_job(lost.attributes["messaging.message.id"]).waterfall()
    assert_readable(picture)
    assert "1 cut off" in picture.alt


def test_a_long_waterfall_says_that_it_is_cut(incident):
    picture = waterfall(incident.spans())
    assert f"The first 60 of {len(incident.spans())} spans are drawn" in picture.alt


def test_receives_rise_while_sends_do_not(incident):
    found = metrics(incident)
    names = ("sent", "received", "redelivered")
    assert [found.value(f"labkit_messages_{name}_total") for name in names] == [40, 41, 1]
    assert found.value("labkit_messages_acked_total", result="ok") == 40
    assert found.value("labkit_messages_acked_total", result="stale") == 1
    assert found.value("labkit_job_overlaps_total") == 1
    assert found.value("labkit_deployments_total") == 1


def test_gauges_are_those_of_their_moment(incident):
    found = incident.metrics()
    assert found.value("labkit_jobs_on_several_workers", at=300) == 1
    assert found.value("labkit_jobs_on_several_workers", at=350) == 0
    assert found.value("labkit_queue_oldest_message_age_seconds", at=339) == 89  # the job of 250 s
    assert found.value("labkit_queue_visibility_timeout_seconds") == 30
    assert found.value("labkit_messages_in_flight", at=255) >= 1
    assert found.value("labkit_queue_messages") == 0


def test_what_the_queue_says_of_itself_and_what_the_log_says_agree(killed):
    found = metrics(killed)
    deliveries_ = deliveries(records(killed))
    assert found.value("labkit_messages_received_total") == len(deliveries_)
    scripts = [event.text for event in killed.events if event.text.startswith("script 'delete'")]
    assert found.value("labkit_messages_acked_total") == len(scripts)


def test_a_killed_job_has_no_duration(killed):
    found = metrics(killed)
    started = len(logs(killed).where(event="job.started"))
    assert found.value("labkit_job_duration_seconds_count") == started - 2


def test_no_metric_has_the_id_of_a_job_as_a_label(incident, killed):
    for trace in (incident, killed):
        for sample in metrics(trace).meter.samples():
            values = " ".join(value for _, value in sample.labels)
            assert "q-78" not in values
            assert "ord-" not in values


def test_a_job_that_is_turned_away_by_a_lock_is_no_overlap():
    found = metrics(Production(orders=20, sent_twice=2, lock="atomic", deploy=0).run())
    assert found.value("labkit_lock_acquire_total", result="busy") > 0
    assert found.value("labkit_job_overlaps_total") == 0


def test_metric_names_follow_the_rules_of_prometheus():
    for one in Meter().instruments:
        assert one.name.startswith("labkit_")
        assert one.name.endswith("_total") == (one.kind == "counter")
        assert one.says.endswith(".")
        assert bool(one.buckets) == (one.kind == "histogram")
    assert len({one.name for one in Meter().instruments}) == len(Meter().instruments)


def test_buckets_lie_around_the_visibility_timeout():
    bucket = Meter().duration.buckets
    for timeout in (30, 60, 90):
        assert timeout in bucket
        assert max(end for end in bucket if end < timeout) >= 0.6 * timeout


def test_a_counter_that_is_expected_begins_at_zero():
    assert [sample.value for sample in Instrument("counter", "labkit_x_total", "x", ()).samples()] == []
    one = Instrument("counter", "labkit_x_total", "x", ())
    one.expect()
    assert [sample.value for sample in one.samples()] == [0]


def test_a_meter_follows_a_live_run_event_by_event():
    meter = Meter(queue="jobs", visibility_timeout=30)
    ids = {"job_id": "1", "worker_id": "A", "attempt": 1}
    for event in ("job.received", "job.started", "job.finished", "job.acked"):
        meter.emit({"event": event, **ids})
    found = {(sample.name, *dict(sample.labels).values()): sample.value for sample in meter.samples()}
    assert found["labkit_messages_received_total", "jobs"] == 1
    assert found["labkit_jobs_processed_total", "done", "jobs"] == 1


def test_records_alone_are_enough(incident):
    kept = records(incident)
    assert [line["event"] for line in logs(kept)] == [record.event for record in kept]
    assert repr(metrics(kept)) == repr(metrics(incident))
    assert len(spans(kept).named("process")) == len(spans(incident).named("process"))


def test_the_same_trace_gives_the_same_bytes(incident):
    again = INCIDENT.run()
    assert logs(again).jsonl() == logs(incident).jsonl()
    assert repr(metrics(again)) == repr(metrics(incident))
    assert repr(spans(again)) == repr(spans(incident))


def test_a_table_shows_expressions_over_time(incident):
    text = incident.metrics().table(
        every=120, sent="labkit_messages_sent_total", on_two="labkit_jobs_on_several_workers"
    )
    assert text.splitlines() == [
        " time  sent  on two",
        "120 s    12       0",
        "240 s    24       0",
        "360 s    36       0",
    ]


def test_an_event_that_is_printed_comes_back_as_it_was(capsys):
    print_event({"event": "job.started", "job_id": "1"})
    assert json.loads(capsys.readouterr().out) == {"event": "job.started", "job_id": "1"}


def test_a_record_knows_its_time_of_day():
    assert Record(33_000_000, {"event": "x"}).timestamp == "2026-01-01T09:00:33.000Z"


def test_rules_can_be_changed_one_by_one():
    rule = load_rules()[0]
    assert dataclasses.replace(rule, hold=0).hold == 0


def test_a_log_line_is_json_whatever_was_said():
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    said = {
        "event": "x",
        "nan": math.nan,
        "most": [math.inf],
        "bytes": b"\xff",
        "set": {1},
        "in": {"a": -math.inf},
        5: 6,
    }
    (line,) = logs([Record(0, said)]).jsonl().splitlines()
    assert json.loads(line, parse_constant=refuse)["nan"] == "nan"


@pytest.mark.parametrize("event", ["effect.applied", "api.replied", "lab.violated"])
def test_a_line_that_leaves_out_what_it_is_about_stops_no_meter(event):
    meter = Meter()
    meter.follow([json.dumps({"event": event})])
    assert any("unknown" in dict(labels).values() for _, labels, value in meter.samples() if value == 1)
