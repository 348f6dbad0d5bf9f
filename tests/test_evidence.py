"""The evidence of both incidents lets a reader rule out each wrong hypothesis, and find what remains."""

from pathlib import Path

import pytest

from labkit import LabError, replay
from labkit.incidents import deploy_case, evidence, status_race_case
from labkit.incidents.deploy_evidence import INCIDENT, DeployEvidence
from labkit.incidents.finding import Finding
from labkit.observe import logs
from labkit.plots.span_rows import both_at_work
from tests.pictures import assert_readable

FIRST = "q-7838"


@pytest.fixture(scope="module")
def deploy():
    return deploy_case()


@pytest.fixture(scope="module")
def race():
    return status_race_case()


@pytest.fixture(scope="module")
def mended():
    """The same night with everything mended."""
    return DeployEvidence(INCIDENT.but(on_sigterm="drain", grace_period=120, heartbeat=True, lock="").run())


# ---- incident B


def test_two_log_lines_33_seconds_apart_tell_the_story(deploy):
    one, two = deploy.two_lines()
    assert (one["time"], two["time"]) == ("2026-01-01T09:05:16.000Z", "2026-01-01T09:05:49.030Z")
    assert (one["job_id"], one["order_id"], one["event_id"]) == (FIRST, "ord-138", "evt-938")
    assert {name: two[name] for name in ("job_id", "order_id", "event_id")}.items() <= one.items()
    assert (one["worker_id"], one["deployment_id"], one["attempt"]) == ("new-1", "release-42", 1)
    assert (two["worker_id"], two["deployment_id"], two["attempt"]) == ("old-1", "release-41", 2)


def test_it_was_not_the_api_each_order_was_published_once(deploy):
    found = deploy.publishes_per_order()
    assert len(found) == 3
    assert set(found.column("publishes")) == {1}
    assert set(found.column("mails")) == {2}
    assert "none of them more than once" in found.says


def test_it_was_no_retry_nothing_raised_and_nothing_was_given_back(deploy):
    found = deploy.exceptions()
    assert (len(found), found.says) == (0, "No exception in 68 runs of the handler; no message was given back.")


def test_it_was_redelivery_every_gap_is_the_queues_timeout_or_more(deploy):
    found = deploy.gaps()
    gaps = [float(row["gap"].split()[0]) for row in found]
    assert min(gaps) == 33.03
    assert all(gap >= 30 for gap in gaps)
    assert found.column("ended") == ["first still works", "first still works", "first was killed"]


def test_it_was_not_the_database_two_workers_commit_one_transaction_each(deploy):
    found = deploy.transactions()
    assert set(found.column("rolled back")) == {0}
    finished = [row for row in found if row["stock"] == "1 row"]
    assert all(row["committed"] == 1 for row in finished)
    both = [row["worker"] for row in finished if row["order"] == "ord-138"]
    assert len(set(both)) == 2


def test_the_cache_key_expires_while_its_holder_works(deploy):
    found = deploy.lock_history()
    what = [(row["who"], row["what"].split()[0]) for row in found]
    assert what == [
        ("new-1", "GET"),
        ("new-1", "SET"),
        ("Redis", "the"),
        ("old-1", "GET"),
        ("old-1", "SET"),
        ("old-1", "DEL"),
        ("new-1", "DEL"),
    ]
    assert [row["what"] for row in found if row["what"].startswith("GET")] == [
        "GET processing:order:ord-138 -> nil"
    ] * 2


def test_jobs_are_begun_again_within_three_minutes_after_the_deploy_only(deploy):
    after = [float(row["after the deploy"].split()[0]) for row in deploy.after_the_deploy()]
    assert len(after) == 3
    assert all(30 < seconds < 180 for seconds in after)
    assert deploy.trace.events[-1].time / 1e6 > 301 + 180 + 60  # and it was calm for a while


def test_the_old_workers_poll_on_after_sigterm(deploy):
    taken = [row["what"] for row in deploy.moments() if row["what"].startswith("and takes")]
    assert taken == ["and takes 2 more jobs"] * 2


def test_receives_rise_over_sends_and_long_jobs_stand_out(deploy):
    found = deploy.queue_metrics()
    assert "65 messages were sent, 68 received" in found.says
    assert [int(row["redelivered"]) for row in found] == [0, 0, 0, 0, 0, 1, 1, 1, 0]
    p95 = [float(row["95th percentile"].split()[0]) for row in found]
    assert max(p95[:5]) < 24 < 30 < max(p95)


def test_each_effect_comes_before_the_ack_and_the_ack_of_the_slow_worker_is_stale(deploy):
    found = [(row["worker"], row["what"]) for row in deploy.effects()]
    assert found == [
        ("new-1", "mail"),
        ("old-1", "mail"),
        ("old-1", "stock"),
        ("old-1", "push"),
        ("old-1", "ack: ok"),
        ("new-1", "stock"),
        ("new-1", "push"),
        ("new-1", "ack: stale"),
    ]


def test_pictures_of_the_deploy_can_be_read(deploy):
    assert_readable(deploy.waterfall())
    assert_readable(deploy.timeline())
    assert_readable(deploy.alerts().timeline())


def test_alerts_of_the_deploy_point_at_redelivery_and_the_timeout(deploy):
    fired = deploy.alerts().fired
    assert list(fired) == [
        "JobOnSeveralWorkers",
        "MessagesRedelivered",
        "OldestMessageTooOld",
        "JobsNearVisibilityTimeout",
    ]
    assert all(second > 301 for second in fired.values())


def test_with_the_mended_deploy_the_same_questions_find_nothing(mended):
    assert mended.twice == []
    assert len(mended.publishes_per_order()) == 0
    assert "65 messages were sent" in mended.queue_metrics().says
    assert mended.gaps().says == "The queue hides a message for 30 s. No message was delivered again."
    assert "JobOnSeveralWorkers" in mended.alerts().silent
    with pytest.raises(LabError, match="no job was begun twice"):
        mended.waterfall()


def test_the_incident_replays_from_its_schedule(deploy):
    again = replay(INCIDENT, deploy.trace.schedule)
    assert logs(again).jsonl() == deploy.logs().jsonl()


# ---- incident A


def test_two_workers_have_one_job_within_twenty_milliseconds_and_nobody_logs_an_error(race):
    lines = race.close_together()
    received = [line for line in lines if line["event"] == "job.received"]
    assert len({line["worker_id"] for line in received}) == 2
    assert [line["time"][17:] for line in received] == ["02.100Z", "02.116Z"]
    assert not [line for line in race.logs() if "error" in line]


def test_both_workers_are_inside_the_completing_code_before_the_status_is_written(race):
    found = race.inside_together()
    assert len(found) == 24
    assert set(found.column("second was inside")) == {"before it"}
    spans = race.spans(race.twice[0])
    one, other = (span for span in spans if span.name == "section complete")
    assert other.start < one.end
    assert both_at_work(spans)
    reads = [line["status"] for line in race.close_together() if line["event"] == "status.read"]
    assert reads == ["in-progress"] * 2


def test_each_message_of_a_job_that_was_sent_twice_has_its_own_producer(race):
    spans = race.spans(race.twice[0])
    senders, process = spans.named("send"), spans.named("process")
    assert [span.parent for span in process] == list(senders)


def test_completions_of_one_job_are_10_to_20_milliseconds_apart(race):
    gaps = [float(row["apart"].split()[0]) for row in race.completions()]
    assert (min(gaps), max(gaps)) == (10, 20)
    assert "10 to 20 ms apart" in race.completions().says


def test_the_api_answers_500_when_there_is_much_to_do_and_at_no_other_time(race):
    for row in race.failures_over_time():
        assert (row["replies 500"] > 0) == (row["messages sent"] > 10)
    assert race.metrics().value("labkit_api_replies_total", status="500") == 24


def test_pictures_of_the_race_can_be_read(race):
    picture = race.waterfall()
    assert_readable(picture)
    assert "status.written" in picture.text
    closer = race.inside()
    assert_readable(closer)
    assert "6 ms of it by two at once" in closer.alt
    steps = [line.strip().split("  ")[-1] for line in closer.text.splitlines() if "status:job-014" in line]
    assert steps == ["GET status:job-014 -> in-progress", "SET status:job-014 completed -> OK"] * 2


# ---- both


def test_evidence_is_named_and_simulated_once():
    assert evidence() is deploy_case()
    assert evidence("status-race") is status_race_case()
    with pytest.raises(LabError, match="no evidence of 'outage'"):
        evidence("outage")


def test_the_lines_of_the_readme_do_what_they_say():
    text = (Path(__file__).parent.parent / "README.md").read_text()
    code = text.split("## Watch it")[1].split("```python\n")[1].split("```")[0]
    names = {}
    exec(code, names)
    assert names["case"] is deploy_case()


def test_a_finding_prints_its_question_its_facts_and_a_sentence():
    found = Finding("Who?", ({"name": "A", "n": 1}, {"name": "Bea", "n": 22}), "Two.")
    assert repr(found) == "Who?\n\nname  n\nA     1\nBea   22\n\nTwo."
    assert repr(Finding("Who?", (), "Nobody.")) == "Who?\n\nNobody."
