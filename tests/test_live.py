"""Scenarios for real: processes, signals and servers, and a trace that is like any other."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from labkit import LabError, PropertyError, ScenarioError, Unsupported, explore, live, run
from labkit.__main__ import main
from labkit.incidents import Rollout
from labkit.plots.deploy import deploy_timeline
from labkit.plots.timeline import timeline
from labkit.processes import effects, one_run, running, server
from labkit.processes.effects import Effects
from labkit.processes.faults import faults_of
from labkit.processes.journal import notes_of
from labkit.processes.real_sql import translated
from labkit.stores.services import Call
from tests import live_scenarios as scenarios
from tests import programs

ROOT = Path(__file__).parent.parent


def told(trace):
    """What a trace tells but for times and lines."""
    return [(str(event.choice), event.text, event.reply, event.kind, event.store) for event in trace.events]


def test_a_live_and_a_simulated_run_of_one_scenario_tell_the_same_and_draw_alike(redis_url):
    simulated, lived = run(scenarios.one_after_the_other), live(scenarios.one_after_the_other, redis_url)
    assert explore(scenarios.one_after_the_other).outcome == "holds"
    # The order of the two where neither waits for the other is not the same each time.
    for worker in "AB":
        assert [each for each in told(lived) if each[0] == worker] == [
            each for each in told(simulated) if each[0] == worker
        ]
    assert lived.workers == simulated.workers
    assert lived.violations == simulated.violations == ()
    assert lived.stated == simulated.stated
    assert lived.over
    assert "A hands over" in lived.log()
    for trace in (simulated, lived):
        picture = trace.lanes(source=True)
        assert "Lane diagram of" in picture.alt
        assert trace.table().count("\n") == len(trace.events) + 2
    marks = {(event.text.split()[0], event.writes) for event in lived.events if event.kind == "command"}
    assert ("SET", ("lock",)) in marks
    assert {name for event in lived.events for name in event.expiries} == {"lock"}
    assert {event.inside.get("B") for event in lived.events} == {None, ("inside",)}


def test_who_says_when_a_run_is_over_is_waited_for_although_only_pollers_are_left(redis_url, monkeypatch):
    monkeypatch.setattr(one_run, "SETTLE", -1.0)  # no patience at all, for those who do not say
    observers = []

    def scenario(lab):
        def api(r):
            r.set("ready", "1")

        def poller(r):
            while r.blpop(["never"], timeout=0.5) is None:
                r.set("found", "1")

        lab.worker("api", api, lab.redis())
        lab.worker("poller", poller, lab.redis(), forever=True)
        observers.append(lab.redis())
        lab.at_end("it was found", lambda: observers[-1].exists("found"))

    trace = live(scenario, redis_url, until=lambda: observers[-1].exists("found"))
    assert trace.over
    assert trace.violations == ()


def test_a_worker_that_raises_before_its_first_step_is_told_in_the_headline(redis_url):
    def scenario(lab):
        lab.worker("A", lambda r: 1 / 0, lab.redis())
        lab.always("calm", lambda: True)

    told = live(scenario, redis_url).headline
    assert "one run of 1 process, every property held. A raised ZeroDivisionError: division by zero" in told
    assert told.endswith("before its first step.")


def test_a_live_run_never_says_holds(redis_url):
    trace = live(scenarios.one_after_the_other, redis_url)
    assert trace.headline == "Observed, not searched: in this one run of 2 processes, every property held."
    assert "holds" not in trace.observations()
    assert trace.looked_at == {
        "at most one mail": "at every moment, afterwards",
        "one inside": "at every moment, afterwards",
        "B was there": "at the end",
    }


def test_a_violation_names_the_step_that_is_to_blame(redis_url):
    trace = live(scenarios.two_mails, redis_url)
    assert [(each.property, each.number) for each in trace.violations] == [("at most one mail", 2)]
    assert trace.headline == "Observed, not searched: 'at most one mail' does not hold after step 2."
    assert "<-- breaks 'at most one mail'" in trace.table()


def test_two_workers_in_one_section_are_seen_although_nobody_looked_just_then(redis_url):
    trace = live(scenarios.both_inside, redis_url)
    assert [each.property for each in trace.violations] == ["one inside"]


@pytest.mark.parametrize(("deduplicates", "effects", "violations"), [(True, 1, 0), (False, 2, 1)])
def test_attempts_and_effects_of_a_service_are_told_apart(redis_url, deduplicates, effects, violations):
    trace = live(scenarios.one_key(deduplicates), redis_url)
    assert (trace.attempts["payments"], trace.effects["payments"]) == (2, effects)
    assert len(trace.violations) == violations
    assert f"payments: 2 attempts, {effects} effects" in trace.observations()


def test_a_step_after_which_a_worker_is_killed_is_in_the_trace_and_nothing_later_is(redis_url):
    trace = live(programs.naive, redis_url, faults=[("kill", "A", "step 1"), ("kill", "B", "step 2")])
    own = {name: [event for event in trace.events if event.choice.process == name] for name in "AB"}
    assert [event.kind for event in own["A"]] == ["command", "crash"]
    assert [event.kind for event in own["B"]] == ["command", "command", "crash"]
    assert trace.exits == {"A": "was killed by SIGKILL", "B": "was killed by SIGKILL"}
    assert [each.property for each in trace.violations] == ["a completed job's event was published"]


def test_a_killed_worker_is_in_no_section_from_its_death_on_however_late_that_is_noticed(redis_url):
    here, there = os.pipe()
    seen = redis.Redis.from_url(redis_url)

    def scenario(lab):
        def first(r):
            with lab.section("stock"):
                r.incr("inside")

        def second(r):
            os.close(there)
            os.read(here, 1)  # until A is dead, and its end of the pipe closed with it
            with lab.section("stock"):
                r.incr("through")

        lab.worker("A", first, lab.redis())
        lab.worker("B", second, lab.redis())
        lab.always("one inside", lambda: lab.inside("stock") <= 1)

    def notices_late():
        if not ends:
            ends.append(os.close(there))
            until(lambda: list(seen.scan_iter("labkit:*:through")))

    ends = []
    trace = live(scenario, redis_url, faults=[("kill", "A", "step 1")], until=notices_late)
    os.close(here)
    assert trace.exits["A"] == "was killed by SIGKILL"
    assert not trace.violations, trace


def test_a_kill_that_comes_when_its_worker_has_just_ended_is_no_crash(redis_url):
    here, there = os.pipe()

    def scenario(lab):
        lab.worker("A", lambda r: r.incr("n"), lab.redis())

    def has_ended_unnoticed():
        if not ends:
            ends.append(os.close(there))
            os.read(here, 1)  # until A is gone
        return True

    ends = []
    trace = live(scenario, redis_url, faults=[("kill", "A", has_ended_unnoticed)])
    os.close(here)
    assert trace.exits["A"] == "returned"
    assert [event.kind for event in trace.events] == ["command"]


def test_a_signal_that_a_worker_survived_is_in_the_trace_of_one_that_was_killed_later(redis_url):
    seen = redis.Redis.from_url(redis_url)

    def scenario(lab):
        def work(r):
            signal.signal(signal.SIGTERM, lambda *_: None)
            r.incr("first")
            r.incr("second")
            r.blpop("never")

        lab.worker("A", work, lab.redis(), signals=1)

    faults = [("term", "A", "step 1"), ("kill", "A", lambda: list(seen.scan_iter("labkit:*:second")))]
    trace = live(scenario, redis_url, faults=faults)
    assert [event.kind for event in trace.events if event.kind != "command"] == ["signal", "crash"]


@pytest.mark.parametrize("drains", [True, False])
def test_sigterm_kills_a_worker_unless_it_drains(redis_url, drains):
    seen = redis.Redis.from_url(redis_url)

    def begun():
        return list(seen.scan_iter("labkit:*:begun"))

    trace = live(scenarios.drains_or_not(drains), redis_url, faults=[("term", "A", begun)])
    assert [event.text for event in trace.events if event.kind == "signal"] == ["gets SIGTERM"]
    assert trace.exits["A"] == ("returned" if drains else "was killed by SIGTERM")
    assert [each.property for each in trace.violations] == ([] if drains else ["finished"])


def test_a_worker_that_starts_later_comes_after_what_it_waited_for(redis_url):
    seen = redis.Redis.from_url(redis_url)
    started = [("start", "B", lambda: list(seen.scan_iter("labkit:*:job_status:1")))]
    trace = live(programs.naive, redis_url, faults=started)
    assert {event.worker for event in trace.events} == {"A", "B"}
    assert trace.over


def test_random_crashes_are_the_same_for_the_same_seed():
    for seed in range(20):
        drawn = [faults_of([], 2, seed, ["A", "B", "C", "D"], {"D"}) for _ in range(2)]
        assert drawn[0] == drawn[1]
        assert len({fault.worker for fault in drawn[0]} - {"D"}) == 2


def test_what_the_lab_made_on_somebodys_server_is_removed_and_nothing_else(redis_url):
    client = redis.Redis.from_url(redis_url)
    client.set("job_status:1", "somebody else's")
    live(programs.naive, redis_url)
    live(scenarios.queue_and_database, redis_url)
    assert client.keys("*") == [b"job_status:1"]
    assert client.get("job_status:1") == b"somebody else's"
    client.delete("job_status:1")


def test_after_ctrl_c_nothing_is_left_either(redis_url):
    client = redis.Redis.from_url(redis_url)
    pids = []

    def interrupt():
        for key in client.scan_iter("labkit:*:there"):
            pids.append(int(client.get(key)))
            raise KeyboardInterrupt

    def scenario(lab):
        def work(r):
            r.set("there", os.getpid())
            r.blpop("never")

        lab.worker("A", work, lab.redis())

    with pytest.raises(KeyboardInterrupt):
        live(scenario, redis_url, until=interrupt)
    assert client.keys("*") == []
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_the_taught_parts_work_for_real(redis_url):
    trace = live(scenarios.queue_and_database, redis_url)
    assert not trace.violations, trace
    assert trace.over
    scripts = {event.text.partition(" ")[0] for event in trace.events if "script" in event.text}
    assert scripts == {"script"}
    assert any(event.text == "script 'receive'" or "'receive'" in event.text for event in trace.events)


def test_the_same_scenario_runs_on_postgresql_in_a_schema_that_is_dropped(redis_url, postgresql_url):
    import psycopg

    trace = live(scenarios.queue_and_database, redis_url, postgresql_url)
    assert not trace.violations, trace
    assert "PostgreSQL" in trace.servers
    with psycopg.connect(postgresql_url) as connection:
        assert connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'labkit%'").fetchall() == []


def test_every_kind_of_request_is_answered_and_shown_as_in_the_lab(redis_url):
    simulated, lived = run(scenarios.every_kind), live(scenarios.every_kind, redis_url)
    assert lived.exits["A"] == "returned"
    assert [event[1] for event in told(lived)] == [event[1] for event in told(simulated)]
    assert [event[2] for event in told(lived)] == [event[2] for event in told(simulated)]


def test_a_subscriber_hears_what_is_published(redis_url):
    trace = live(scenarios.news, redis_url)
    assert not trace.violations, trace


def test_a_thread_is_an_actor_of_its_own(redis_url):
    trace = live(scenarios.beating, redis_url)
    assert trace.actors == ("A", "A/beat")
    assert told(trace) == [
        ("A/beat", "INCRBY beats 1", "1", "command", "redis"),
        ("A", "GET beats", "1", "command", "redis"),
    ]


def test_when_time_is_up_no_end_is_judged(redis_url):
    trace = live(scenarios.waits_for_ever, redis_url, seconds=0.3)
    assert not trace.over
    assert trace.waiting == ("A",)
    assert "time was up before A ended" in trace.headline


def test_an_error_of_a_worker_is_its_ending_with_its_line(redis_url):
    def scenario(lab):
        def work(r):
            r.get("x")
            raise ValueError("no such order")

        lab.worker("A", work, lab.redis())

    ending = live(scenario, redis_url).events[-1].ending
    assert ending.error == "ValueError: no such order"
    assert "raise ValueError" in ending.line.text


def test_what_lives_in_stores_is_looked_at_now_and_then_and_at_the_end(redis_url):
    def scenario(lab):
        r = lab.redis()
        for name in "AB":
            lab.worker(name, lambda r: r.incr("n"), lab.redis())
        lab.always("at most one", lambda: int(r.get("n") or 0) <= 1)
        lab.always("it only grows", lambda before, now: now >= before, remember=lambda: int(r.get("n") or 0))
        lab.always("it never grows", lambda before, now: now <= before, remember=lambda: int(r.get("n") or 0))

    trace = live(scenario, redis_url)
    assert [each.property for each in trace.violations] == ["at most one", "it never grows"]
    assert set(trace.looked_at.values()) == {"now and then, and at the end"}


def test_forever_workers_have_time_to_do_what_the_end_needs_and_are_stopped_then(redis_url):
    def scenario(lab):
        def relay(r, mail):
            while True:
                mail.send(r.blpop("outbox")[1].decode())

        lab.worker("A", lambda r: r.rpush("outbox", "order-1"), lab.redis())
        lab.worker("relay", relay, lab.redis(), lab.mail, forever=True)
        lab.at_end("it went out", lambda: lab.mail.count("order-1") == 1)

    trace = live(scenario, redis_url)
    assert not trace.violations, trace
    assert trace.exits["relay"] == "was stopped by the lab when the run was over"
    assert {event.kind for event in trace.events} == {"command", "call"}


def test_what_is_gathered_at_the_end_comes_with_the_trace(redis_url):
    kept = []

    def scenario(lab):
        kept.append(lab.redis())
        lab.worker("A", lambda r: r.set("x", "1"), lab.redis())

    assert live(scenario, redis_url, gather=lambda: kept[0].get("x")).gathered == b"1"


def test_a_note_that_was_cut_short_is_left_out():
    assert [note["n"] for note in notes_of(['{"n": 1}', '{"n": 2}', '{"n": 3'])] == [1, 2]


def test_a_wall_clock_that_is_set_meanwhile_does_not_end_a_run(redis_url, monkeypatch):
    set_by_an_hour = SimpleNamespace(monotonic=time.monotonic, time_ns=lambda: time.time_ns() + 3_600 * 10**9)
    monkeypatch.setattr(one_run, "time", set_by_an_hour)
    trace = live(scenarios.one_after_the_other, redis_url)
    assert trace.over
    assert trace.seconds < 3_600


def test_no_step_comes_before_the_start_of_its_run(redis_url, monkeypatch):
    seen, whole, close = redis.Redis.from_url(redis_url), os.getpid(), running.Pipe.close_write
    closed = []

    def close_and_stand_still(pipe):
        close(pipe)
        if os.getpid() == whole and not closed:  # the workers are let go
            closed.append(pipe)
            until(lambda: list(seen.scan_iter("labkit:*:n")))

    monkeypatch.setattr(running.Pipe, "close_write", close_and_stand_still)
    (step,) = live(lambda lab: lab.worker("A", lambda r: r.incr("n"), lab.redis()), redis_url).events
    assert step.time > 0


def test_time_passes_in_a_live_run_and_a_sleep_is_a_step(redis_url):
    def scenario(lab):
        lab.worker("A", lambda: time.sleep(0.05))

    (slept,) = live(scenario, redis_url).events
    assert (slept.text, slept.kind) == ("wakes after 0.05 s", "sleep")
    assert slept.time >= 50_000  # microseconds: a sleep is never shorter


def test_a_call_to_a_service_that_is_broken_off_leaves_nothing_and_keeps_nobody_out(tmp_path, monkeypatch):
    def raise_as_a_handler_of_sigterm_may():
        raise SystemExit

    mine, others = Effects(tmp_path / "services"), Effects(tmp_path / "services")
    monkeypatch.setattr(effects, "PATIENCE", 0.1)
    monkeypatch.setattr(effects, "time", SimpleNamespace(time_ns=raise_as_a_handler_of_sigterm_may))
    with pytest.raises(SystemExit):
        mine.call("mail", False, Call("order-1", None, ()), "A")
    monkeypatch.setattr(effects, "time", time)
    assert others.call("mail", False, Call("order-2", None, ()), "B")[0] == "done"
    assert mine.call("mail", False, Call("order-3", None, ()), "A")[0] == "done"
    assert [effect.call.key for effect in mine.all()] == ["order-2", "order-3"]
    assert mine.attempts() == {"mail": 2}
    mine.close()
    others.close()


# ---- what is refused, in words


def test_without_a_redis_server_the_message_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(server.shutil, "which", lambda name: None)
    with pytest.raises(LabError, match="install your system's package `redis-server`"):
        live(programs.naive)


def test_a_server_that_is_not_there_is_named_without_its_password():
    with pytest.raises(LabError, match="no Redis server to run on") as caught:
        live(programs.naive, "redis://:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (("hit", "A", 1), "is no fault; there are kill, term, start"),
        (("kill", "C", 1), "there is no worker C; there are A, B"),
        (("kill", "A", "soon"), 'give seconds, "step 3", or a function'),
        (("kill", "A", -1), "is no time"),
        ("kill", "is no fault; write"),
    ],
)
def test_a_fault_that_is_none_is_refused(redis_url, fault, message):
    with pytest.raises(ScenarioError, match=message):
        live(programs.naive, redis_url, faults=[fault])


@pytest.mark.parametrize(
    ("scenario", "seconds", "why"),
    [
        (None, 1, "a scenario is a function that takes a Lab, not NoneType"),
        (programs.naive, -1, "seconds is -1; it must be a number from 0 to 86,400"),
        (programs.naive, float("nan"), "seconds is nan"),
        (programs.naive, float("inf"), "seconds is inf"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_server_is_started(scenario, seconds, why):
    with pytest.raises(ScenarioError, match=why):
        live(scenario, seconds=seconds)


def test_what_the_lab_itself_has_to_say_of_a_worker_reaches_the_learner(redis_url):
    def scenario(lab):
        lab.worker("A", lambda r: r.execute_command("CONFIG GET", "*"), lab.redis())

    with pytest.raises(Unsupported, match="worker A: CONFIG is not for a scenario"):
        live(scenario, redis_url)


def test_a_worker_that_hangs_while_it_builds_the_scenario_ends_the_run(redis_url, monkeypatch):
    monkeypatch.setattr(running, "TO_BUILD", 0.1)
    here, there = os.pipe()
    whole = os.getpid()

    def scenario(lab):
        if os.getpid() != whole:
            os.read(here, 1)  # nobody writes
        lab.worker("A", lambda r: r.get("x"), lab.redis())

    with pytest.raises(LabError, match=r"1 of 1 workers did not build the scenario within 0\.1 s"):
        live(scenario, redis_url)
    os.close(here)
    os.close(there)


@pytest.mark.parametrize("taken", ["labkit:demo:job", "labkit-letters:demo:tape"])
def test_a_run_whose_id_is_taken_is_refused_and_removes_nothing(redis_url, taken):
    server = redis.Redis.from_url(redis_url)
    server.set(taken, "precious")
    with pytest.raises(LabError, match=f"run_id demo is taken: the server has the key {taken}"):
        live(scenarios.one_after_the_other, redis_url, run_id="demo")
    assert server.getdel(taken) == b"precious"


def test_a_run_whose_schema_is_there_already_is_refused_and_drops_nothing(redis_url, postgresql_url):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA labkit_demo CREATE TABLE precious (n int)")
        with pytest.raises(LabError, match="schema labkit_demo is there already"):
            live(scenarios.tables, redis_url, postgresql_url, run_id="demo")
        connection.execute("SELECT * FROM labkit_demo.precious")
        connection.execute("DROP SCHEMA labkit_demo CASCADE")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_a_run_made_is_gone_when_it_is_told_to_end_midway(redis_url, number, tmp_path):
    server, path = redis.Redis.from_url(redis_url), os.environ["PATH"]
    command = [sys.executable, "-m", "labkit", "live", "tests.live_scenarios:endless", "--redis-url", redis_url]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={"TMPDIR": str(tmp_path), "PATH": path},
        stderr=subprocess.DEVNULL,
        preexec_fn=hear_ctrl_c,
    ) as process:
        until(lambda: server.keys("*:begun"))
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
    assert server.keys("*") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:6379", "redis://127.0.0.1:99999"])
def test_what_is_no_url_of_a_redis_is_told_as_wrong_use(url):
    with pytest.raises(LabError, match="there is no Redis server to run on"):
        live(scenarios.one_after_the_other, url)


def raising(error):
    def work(r):
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "ending"),
    [
        (lambda r: int("x"), "raised ValueError: invalid literal for int() with base 10: 'x'"),
        (lambda r: 1 / r.incr("n") / 0, "raised ZeroDivisionError"),
        (raising(BaseException("odd")), "raised BaseException: odd"),
        (raising(KeyboardInterrupt()), "raised KeyboardInterrupt"),
        (lambda r: os._exit(0), "ended with 0, and its function did not"),
        (lambda r: os._exit(7), "ended with 7, and its function did not"),
        (lambda r: None, "returned"),
    ],
)
def test_how_a_worker_ended_is_told_although_it_took_no_step(redis_url, work, ending):
    def scenario(lab):
        lab.worker("A", work, lab.redis())

    assert live(scenario, redis_url).exits["A"].startswith(ending)


def test_a_worker_starts_only_once_and_only_here(redis_url):
    twice = [("start", "A", 0.1), ("start", "A", 0.2)]
    with pytest.raises(ScenarioError, match="A can start only once"):
        live(programs.naive, redis_url, faults=twice)
    with pytest.raises(ScenarioError, match="A runs elsewhere, and starts when it joins"):
        live(programs.naive, redis_url, faults=twice[:1], elsewhere=["A"])


def test_a_worker_that_forks_is_told_so(redis_url):
    def work(r):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        r.incr("n")

    def scenario(lab):
        lab.worker("A", work, lab.redis())

    with pytest.raises(Unsupported, match="worker A: it forks"):
        live(scenario, redis_url)


def test_a_whole_server_is_never_flushed(redis_url):
    def scenario(lab):
        lab.worker("A", lambda r: r.flushall(), lab.redis())

    with pytest.raises(LabError, match="concerns a whole server"):
        live(scenario, redis_url)


def test_a_script_that_leaves_the_prefix_is_stopped_by_the_server(redis_url):
    def scenario(lab):
        lab.worker("A", lambda r: r.eval("return redis.call('set', 'other', 1)", 0), lab.redis())

    assert "the script leaves the prefix" in live(scenario, redis_url).exits["A"]
    assert redis.Redis.from_url(redis_url).get("other") is None


def test_a_property_that_writes_is_refused(redis_url):
    def scenario(lab):
        r = lab.redis()
        lab.worker("A", lambda r: r.get("x"), lab.redis())
        lab.always("nothing", lambda: r.set("x", 1))

    with pytest.raises(PropertyError, match="may only read"):
        live(scenario, redis_url)
    assert redis.Redis.from_url(redis_url).keys("*") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ? FROM t WHERE a = '?' AND b LIKE '%x'", "SELECT %s FROM t WHERE a = '?' AND b LIKE '%%x'"),
        ("SELECT :name, b::text", "SELECT %(name)s, b::text"),
    ],
)
def test_placeholders_are_those_of_psycopg_but_inside_of_strings(text, expected):
    assert translated(text) == expected


# ---- nobody is left behind


def test_a_run_leaves_no_file_open(redis_url):
    def open_files():
        gc.collect()  # connections of clients that nobody has any more
        return len(os.listdir("/dev/fd"))

    live(scenarios.two_mails, redis_url)
    before = open_files()
    live(scenarios.two_mails, redis_url)
    assert open_files() == before


def test_after_a_real_ctrl_c_a_run_removes_what_it_made(redis_url):
    client = redis.Redis.from_url(redis_url)
    command = [sys.executable, "-m", "labkit", "live", "tests.live_scenarios:waits_for_ever", "--redis-url", redis_url]
    how = {"stderr": subprocess.PIPE, "start_new_session": True, "preexec_fn": hear_ctrl_c}
    with subprocess.Popen(command, cwd=ROOT, **how) as process:
        until(lambda: any(each["cmd"] == "blpop" for each in client.client_list()))
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    until(lambda: not any(each["cmd"] == "blpop" for each in client.client_list()))
    assert client.keys("*") == []


def test_workers_do_not_outlive_the_process_that_started_them(redis_url):
    client = redis.Redis.from_url(redis_url)
    command = [sys.executable, "-m", "labkit", "live", "tests.live_scenarios:waits_for_ever", "--redis-url", redis_url]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        until(lambda: any(each["cmd"] == "blpop" for each in client.client_list()))
        process.kill()
    until(lambda: not any(each["cmd"] == "blpop" for each in client.client_list()))


def test_a_redis_server_does_not_outlive_the_process_that_started_it(redis_url):
    program = (
        "from labkit import redis_server_or_none\nwith redis_server_or_none() as url: print(url, flush=True), input()"
    )
    command, pipes = [sys.executable, "-c", program], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, cwd=ROOT) as process:
        client = redis.Redis.from_url(process.stdout.readline().strip())
        assert client.ping()
        process.kill()

    def is_gone():
        try:
            return not client.ping()
        except redis.ConnectionError:
            return True

    until(is_gone)


def test_a_redis_server_that_does_not_end_in_time_is_killed(redis_url, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_TO_END", 0.1)
    stuck = server.RedisServer(tmp_path)
    stuck.start()
    pid = redis.Redis.from_url(stuck.url).info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        stuck.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def hear_ctrl_c():
    """Have a child hear Ctrl-C, also when these tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(condition):
    """Wait for it; a minute is more than anything here needs."""
    for _ in range(3_000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


@pytest.mark.parametrize(
    ("scenario", "code", "says"),
    [("two_mails", 1, "'at most one mail' does not hold"), ("one_after_the_other", 0, "every property held")],
)
def test_the_command_line_runs_a_scenario_for_real(redis_url, capsys, scenario, code, says):
    assert main(["live", f"tests.live_scenarios:{scenario}", "--redis-url", redis_url]) == code
    assert says in capsys.readouterr().out
    assert main(["live", f"tests.live_scenarios:{scenario}", "--redis-url", redis_url, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["exits"] == {"A": "returned", "B": "returned"}


def test_a_crash_that_had_no_step_to_come_after_is_told(redis_url):
    trace = live(scenarios.two_mails, redis_url, faults=[("kill", "A", "step 9")])
    assert trace.notes == ("not done: A was not killed, since it took fewer than 9 steps",)
    trace = live(scenarios.two_mails, redis_url, faults=[("term", "A", 20)])
    assert trace.notes == ("not done: term of A, since the run was over before",)


def test_the_deploy_timeline_draws_a_live_run_too(redis_url):
    rollout = Rollout(jobs=4, job_seconds=0.2, visibility_timeout=5, ready=0.2)
    seen, told = redis.Redis.from_url(redis_url), []

    def deleted():
        return sum(int(seen.hget(key, "deleted") or 0) for key in seen.scan_iter("labkit:*:queue:orders"))

    def is_time():
        told.extend(["now"] * (deleted() >= 2))
        return bool(told)

    faults = [("term", name, is_time) for name in ("old-1", "old-2")]
    trace = live(rollout, redis_url, faults=faults, until=lambda: bool(told) and deleted() == 4)
    assert not trace.violations, trace
    shown = timeline(trace)
    assert {mark.worker for mark in shown.marks if mark.kind == "SIGTERM"} == {"old-1", "old-2"}
    assert len(shown.jobs) == 4
    assert "order-1 begins" in deploy_timeline(trace).text
