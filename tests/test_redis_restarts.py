"""What a redis-server that dies midway takes with it, and what it does not."""

import time

import pytest

from labkit.processes.server import RedisServer, find_redis_server
from labkit.queues import VisibilityQueue
from tests.benchmarks.flow import QUEUE, Load, fork

pytestmark = pytest.mark.skipif(find_redis_server() is None, reason="there is no redis-server on this machine")


@pytest.fixture
def server(request, tmp_path):
    server = RedisServer(tmp_path, fsync=request.param)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("server", ["always"], indirect=True)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_writes_before_it_answers_loses_nothing(server, end):
    def restart():
        getattr(server, end)()
        server.start()

    load = Load(server.url, jobs=200, workers=3, visibility=2)
    load.send()
    load.run(kills=1, midway=restart)
    assert load.lost_and_doubled() == ([], [])
    assert load.done() == 200


@pytest.mark.parametrize("server", ["no file"], indirect=True)
def test_a_load_that_breaks_off_ends_its_workers_and_one_without_workers_does_not_wait_for_ever(server):
    load = Load(server.url, jobs=1, workers=1)
    load.send()
    load.workers = [fork.Process(target=time.sleep, args=(3_600,), daemon=True)]
    with pytest.raises(ZeroDivisionError):
        load.run(midway=lambda: 1 / 0)
    assert not load.workers.pop().is_alive()
    with pytest.raises(RuntimeError, match="every worker has ended"):
        load.run()


@pytest.mark.parametrize("server", ["no file"], indirect=True)
def test_a_load_that_was_never_seen_midway_says_so(server):
    nothing_to_do = Load(server.url, jobs=20, workers=1)
    with pytest.raises(RuntimeError, match="more jobs are needed"):
        nothing_to_do.run(midway=server.kill)


@pytest.mark.parametrize("server", ["no file"], indirect=True)
def test_a_server_that_keeps_nothing_loses_all_and_it_can_be_named(server):
    load = Load(server.url, jobs=20, workers=2)
    load.send()
    server.kill()
    server.start()
    lost, _ = load.lost_and_doubled()
    assert sorted(map(int, lost)) == list(range(20))


@pytest.mark.parametrize("server", ["always"], indirect=True)
def test_a_flow_that_does_not_ask_whether_a_job_is_done_is_caught_doubling(server):
    load = Load(server.url, jobs=20, workers=1, once=False)
    load.send()
    VisibilityQueue(load.r, QUEUE).send("7")
    load.run()
    assert load.lost_and_doubled() == ([], ["7"])
