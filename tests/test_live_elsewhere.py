"""Workers that join a live run from another process that shares nothing with it but its servers."""

import contextlib
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import redis

from labkit import LabError, ScenarioError, live
from labkit.processes.joining import join
from labkit.processes.letters import Letters, packed_tape, unpacked_tape
from labkit.processes.part import Part
from labkit.stores.sql import Result
from tests import live_scenarios as scenarios
from tests.test_live import ROOT, hear_ctrl_c, told


@contextlib.contextmanager
def joining(scenario, url, run, name, *more):
    command = [sys.executable, "-m", "labkit", "worker", f"tests.live_scenarios:{scenario}", "--redis", url]
    command += ["--run", run, "--name", name, *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process
            assert process.wait(timeout=60) == 0, process.stderr.read()
        finally:
            process.kill()


def test_a_worker_elsewhere_takes_the_same_steps_and_its_notes_are_in_the_trace(redis_url):
    with joining("one_after_the_other", redis_url, "run1", "B"):
        trace = live(scenarios.one_after_the_other, redis_url, elsewhere=["B"], run_id="run1", seconds=60)
    here = live(scenarios.one_after_the_other, redis_url)
    assert not trace.violations, trace
    assert trace.over
    assert trace.exits == {"A": "returned", "B": "returned"}
    assert sorted(told(trace)) == sorted(told(here))
    assert redis.Redis.from_url(redis_url).keys("*") == []


def test_what_it_asks_of_a_service_is_done_where_the_run_is(redis_url):
    with joining("two_mails", redis_url, "run2", "B"):
        trace = live(scenarios.two_mails, redis_url, elsewhere=["B"], run_id="run2", seconds=60)
    assert trace.effects["mail"] == 2
    assert [each.property for each in trace.violations] == ["at most one mail"]


def test_it_shares_the_runs_postgresql(redis_url, postgresql_url):
    with joining("tables", redis_url, "run3", "B", "--database-url", postgresql_url):
        trace = live(scenarios.tables, redis_url, postgresql_url, elsewhere=["B"], run_id="run3", seconds=60)
    assert not trace.violations, trace
    assert trace.over


def test_without_a_database_it_says_that_it_shares_no_file(redis_url):
    with (
        pytest.raises(LabError, match="a worker that joins shares no SQLite file"),
        joining("tables", redis_url, "run4", "B"),
    ):
        live(scenarios.tables, redis_url, elsewhere=["B"], run_id="run4", seconds=60)


@pytest.mark.parametrize("name", ["A", "B"])  # B does not listen to SIGTERM
def test_a_run_that_is_ended_by_ctrl_c_ends_its_guests_and_leaves_nothing(redis_url, name):
    server = redis.Redis.from_url(redis_url, socket_timeout=60)
    command = [sys.executable, "-m", "labkit", "live", "tests.live_scenarios:endless", "--redis-url", redis_url]
    command += ["--run", "run6", "--elsewhere", name]
    guest_command = [*command[:3], "worker", command[4], "--redis", redis_url, "--run", "run6", "--name", name]
    with (
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, preexec_fn=hear_ctrl_c) as process,
        subprocess.Popen(guest_command, cwd=ROOT) as guest,
    ):
        server.blpop(["labkit:run6:four rounds"], timeout=50)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT
        assert server.keys("*") == []
        assert guest.wait(timeout=60) in (-signal.SIGTERM, -signal.SIGKILL)
        assert server.keys("*") == []


def test_a_run_says_how_to_start_the_worker_that_is_missing(redis_url):
    with pytest.raises(LabError, match=r"B did not join within 0 s; start each with `python -m labkit worker .*run5"):
        live(scenarios.two_mails, redis_url, elsewhere=["B"], run_id="run5", seconds=0)
    assert redis.Redis.from_url(redis_url).keys("*") == []


def test_a_run_that_is_not_there_cannot_be_joined(redis_url):
    with pytest.raises(LabError, match="there is no run none on this server"):
        join(scenarios.two_mails, redis_url, "none", "B", None, seconds=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"elsewhere": ["C"]}, "the scenario has no worker C"),
        ({"run_id": "a b"}, "run_id is 'a b'"),
        ({"elsewhere": ["B"], "faults": [("kill", "B", 1)]}, "B is spared or runs elsewhere"),
    ],
)
def test_wrong_use_is_refused(redis_url, settings, message):
    with pytest.raises(ScenarioError, match=message):
        live(scenarios.two_mails, redis_url, **settings)


@contextlib.contextmanager
def waiting_for_its_run(url, run):
    """A worker that has joined a run which has not begun."""
    letters = Letters(redis.Redis.from_url(url, socket_timeout=None), run)
    letters.write("lead", 0)
    letters.write("expects", ["B"])
    letters.client.set(letters.key("tape"), "[]")
    command = [sys.executable, "-m", "labkit", "worker", "tests.live_scenarios:two_mails", "--redis", url]
    with subprocess.Popen([*command, "--run", run, "--name", "B"], stderr=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert letters.client.blpop([letters.key("ready")], timeout=60)
            yield process, letters
        finally:
            process.kill()
            letters.burn()


def test_a_worker_that_has_joined_waits_for_longer_than_its_client_lets_one_request_wait():
    waits, time_out = [], redis.Redis().connection_pool.make_connection().socket_timeout

    def blpop(keys, timeout):
        waits.append(timeout)
        return (keys[0], b"go") if sum(waits) > time_out else None

    assert Letters(SimpleNamespace(blpop=blpop), "run").wait_for("go", "B") == b"go"
    assert all(0 < seconds < time_out for seconds in waits)


def test_a_worker_that_has_joined_ends_when_its_run_is_gone(redis_url):
    with waiting_for_its_run(redis_url, "run8") as (process, letters):
        letters.burn()
        assert process.wait(timeout=60) == -signal.SIGTERM


def test_ctrl_c_ends_a_worker_that_has_joined(redis_url):
    with waiting_for_its_run(redis_url, "run7") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT


def test_a_set_ups_record_is_sent_whole(redis_url):
    tape = [
        ("GET", None),
        ("HGETALL", {b"a": [1, 2.5, b"x"]}),
        ("EVALSHA", redis.exceptions.NoScriptError("no")),
        ("SELECT", Result(((1, "a", None),), ("n", "t", "z"), -1, 3)),
    ]
    part = Part(redis_url, None, None, None, tape=tape)
    again = unpacked_tape(packed_tape(part))
    assert again[:2] == tape[:2]
    assert (type(again[2][1]), str(again[2][1])) == (redis.exceptions.NoScriptError, "no")
    assert again[3] == tape[3]
