"""What would make a verdict a lie, or reach out of the lab, is refused in words."""

import os
import threading
import time

import pytest
import redis

from labkit import LabError, ScenarioError, Unsupported, explore, live, replay, sample
from labkit.__main__ import main
from labkit.workers import Worker


def test_a_script_on_a_real_server_cannot_leave_the_prefix(redis_url):
    server = redis.Redis.from_url(redis_url)
    server.set("somebody's", "own")
    for script in ("return redis.call('flushall')", "return redis.call('set', \"somebody's\", 'mine')"):

        def scenario(lab, script=script):
            lab.worker("A", lambda r: r.eval(script, 0), lab.redis())
            lab.always("true", lambda: True)

        with pytest.raises(LabError, match="leaves the prefix"):
            replay(scenario, "A", redis_url=redis_url)
        assert server.get("somebody's") == b"own"
    server.delete("somebody's")


@pytest.mark.parametrize(
    "call",
    [
        "'set', 'own', KEYS[1]",
        "'lpush', 'own', KEYS[1]",
        "'del', KEYS[1], 'own'",
        "'mset', KEYS[1], 1, 'own', 2",
        "'rename', KEYS[1], 'own'",
        "'copy', KEYS[1], 'own'",
        "'bitop', 'not', 'own', KEYS[1]",
        "'zunionstore', 'own', 1, KEYS[1]",
        "'zunion', 2, KEYS[1], 'own'",
        "'xread', 'streams', KEYS[1], 'own', '0', '0'",
        "'sort', KEYS[1], 'store', 'own'",
        "'object', 'encoding', 'own'",
    ],
)
def test_a_script_on_a_real_server_reaches_no_key_of_others_wherever_it_names_it(redis_url, call):
    trace = live(one(lambda r: (r.set("k", 1), r.eval(f"return redis.call({call})", 1, "k"))), redis_url)
    assert "leaves the prefix" in trace.exits["A"]
    assert redis.Redis.from_url(redis_url).keys("*") == []


@pytest.mark.parametrize(
    "call",
    [
        "'mset', KEYS[1], 'own', KEYS[2], 2",
        "'del', KEYS[1], KEYS[2]",
        "'copy', KEYS[1], KEYS[2], 'replace'",
        "'bitop', 'and', KEYS[2], KEYS[1], KEYS[1]",
        "'zunionstore', KEYS[2], 1, KEYS[3], 'weights', 2",
        "'sintercard', 2, KEYS[3], KEYS[3], 'limit', 1",
        "'xread', 'count', 1, 'streams', KEYS[2], KEYS[3], '0', '0'",
        "'object', 'encoding', KEYS[1]",
        "'publish', 'news', KEYS[1]",
        "'time'",
    ],
)
def test_a_script_on_a_real_server_may_do_all_that_concerns_its_own_keys(redis_url, call):
    script = f"return tostring(redis.call({call}))"
    trace = live(one(lambda r: (r.set("k", 1), r.eval(script, 3, "k", "l", "m"))), redis_url)
    assert trace.exits["A"] == "returned", trace.exits


@pytest.mark.parametrize(
    "work",
    [
        lambda r: r.sort("k", by="nosort", get="own:*"),
        lambda r: r.sort("k", by="own:*"),
        lambda r: r.script_flush(),
        lambda r: r.script_kill(),
    ],
)
def test_what_concerns_keys_and_scripts_of_others_is_not_sent_to_a_real_server(redis_url, work):
    with pytest.raises(LabError, match="is not sent to a real server"):
        live(one(work), redis_url)


def test_a_script_that_only_reads_is_kept_to_the_prefix_too(redis_url):
    trace = live(one(lambda r: (r.get("k"), r.eval_ro("return redis.call('get', 'own')", 1, "k"))), redis_url)
    assert "leaves the prefix" in trace.exits["A"]


def one(work, *arguments):
    def scenario(lab):
        lab.worker("A", work, lab.redis(), *arguments)
        lab.always("true", lambda: True)

    return scenario


@pytest.mark.parametrize(
    "leave",
    [lambda: os._exit(0), lambda: os.kill(os.getpid(), 15), lambda: os.system("true"), lambda: os.fork()],
    ids=["_exit", "kill", "system", "fork"],
)
def test_a_worker_cannot_end_or_leave_this_process(leave):
    with pytest.raises(Unsupported, match="worker A"):
        explore(one(lambda r: leave()))


def test_a_worker_cannot_ask_who_is_inside_a_section():
    def scenario(lab):
        lab.worker("A", lambda r: lab.inside("s"), lab.redis())
        lab.always("true", lambda: True)

    with pytest.raises(ScenarioError, match="only properties can see"):
        explore(scenario)


def test_a_property_cannot_look_at_a_worker_through_a_container():
    class Counting:
        def __init__(self, r):
            self.r, self.n = r, 0

        def run(self):
            self.r.incr("x")
            self.n += 1

    def scenario(lab):
        workers = {name: Counting(lab.redis()) for name in "AB"}
        for name, worker in workers.items():
            lab.worker(name, worker.run)
        lab.always("once", lambda: sum(worker.n for worker in workers.values()) <= 1)

    with pytest.raises(ScenarioError, match="never see it change"):
        explore(scenario)


@pytest.mark.parametrize("statement", ["SELECT datetime('now')", "SELECT CURRENT_TIMESTAMP", "SELECT random()"])
def test_the_databases_own_clock_and_chance_are_refused(statement):
    def scenario(lab):
        lab.worker("A", lambda db: db.execute(statement), lab.sql())
        lab.always("true", lambda: True)

    with pytest.raises(Unsupported, match="own clock or chance"):
        explore(scenario)


def test_a_sample_by_priorities_knows_threads():
    def work(r):
        threading.Thread(target=lambda: r.get("x")).start()
        r.get("y")

    assert sample(one(work), 20, strategy="pct").executions == 20


def test_a_worker_refuses_a_handler_of_which_nothing_would_run():
    async def handler(job):
        pass

    with pytest.raises(ValueError, match="nothing of it would run"):
        Worker(None, handler, worker_id="A")


def test_a_module_that_leaves_python_is_wrong_use(tmp_path, capsys):
    (tmp_path / "leaves.py").write_text("import sys\n\ndef scenario(lab):\n    sys.exit(0)\n")
    assert main(["explore", f"{tmp_path}/leaves.py:scenario"]) == 3
    assert "SystemExit" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_wrong_use(tmp_path, capsys):
    lines = [
        "def scenario(lab):",
        "    lab.worker('A', lambda r: r.get('k'), lab.redis())",
        "    lab.always('t', bool)",
    ]
    (tmp_path / "good.py").write_text("\n".join(lines).replace("bool", "lambda: True"))
    assert main(["explore", f"{tmp_path}/good.py:scenario", "--junit", str(tmp_path)]) == 3
    assert "IsADirectoryError" in capsys.readouterr().err


def test_a_verdict_says_when_times_that_live_in_data_were_not_told_to_the_clock():
    def consumer(r, me, mail):
        taken = r.xautoclaim("s", "g", me, min_idle_time=30_000)[1]
        if not taken:
            found = r.xreadgroup("g", me, {"s": ">"}, count=1)
            taken = found[0][1] if found else []
        for entry, _ in taken:
            mail.send("job")
            r.xack("s", "g", entry)

    def streams(lab, told=False):
        r = lab.redis()
        r.xgroup_create("s", "g", mkstream=True)
        r.xadd("s", {"j": 1})
        for name in "AB":
            lab.worker(name, consumer, lab.redis(), name, lab.mail)
        lab.always("at most one mail", lambda: lab.mail.count("job") <= 1)
        if told:
            start = time.time()
            lab.deadlines(lambda: [start + 30])

    assert "tell it with lab.deadlines" in str(explore(streams, pauses=None))
    assert explore(lambda lab: streams(lab, told=True), pauses=None).outcome == "violated"


@pytest.mark.parametrize("setting", ["isolation_level", "autocommit", "row_factory"])
def test_a_setting_that_a_connection_would_ignore_is_refused(setting):
    def scenario(lab):
        lab.worker("A", lambda db: setattr(db, setting, None), lab.sql())
        lab.always("true", lambda: True)

    with pytest.raises(Unsupported, match=f"do not take {setting}"):
        explore(scenario)
