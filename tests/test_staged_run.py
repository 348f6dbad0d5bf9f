"""One staging run, job by job: for real, or inside the lab where there is no redis-server."""

from dataclasses import replace

import pytest

from labkit import redis_server_or_none, replay
from labkit.exercises import jobs_needed, staging_check
from labkit.exercises.tasks.staging_check import solution as passes
from labkit.incidents import Staging, staged, staged_run
from labkit.incidents.staging_run import committed
from labkit.incidents.staging_world import TWICE
from labkit.processes import server
from labkit.widgets import HereAndNow

SOUND = {
    "jobs left pending": 0,
    "answers 500": 0,
    "events lost": 0,
    "jobs with an event twice": 0,
    "jobs whose status was written twice": 0,
}


@pytest.fixture
def no_server(monkeypatch):
    monkeypatch.setattr(staged_run, "find_redis_server", lambda: None)
    monkeypatch.setattr(server, "find_redis_server", lambda: None)


@pytest.fixture(scope="module")
def real(redis_url):
    return staged("corrected", jobs=12, workers=4, kills=2, redis_url=redis_url)


def test_a_real_run_of_the_corrected_program_is_sound_job_by_job(real):
    assert real.is_real
    assert passes(real), real
    assert real.figures().items() >= SOUND.items()
    assert len(real.killed) == 2
    assert all(codes[0] == 202 for codes in real.answers.values())
    assert "4 worker processes and 12 jobs, on a real redis-server." in repr(real)


def test_the_statuses_that_the_trace_tells_are_those_in_the_database(real):
    assert {job: status for _, job, status in committed(real.trace)} == dict(real.statuses)


def test_a_real_run_of_the_naive_program_fails_the_check_and_names_the_jobs(redis_url):
    run = staged("naive", jobs=12, workers=4, redis_url=redis_url)
    assert not passes(run)
    assert run.sample().hits[TWICE] == sum(count > 1 for count in run.events.values()) > 0
    assert "12 executions (jobs of a staging run)" in repr(run.sample())
    assert any(len(who) == 2 for who in run.writers.values())


def test_without_a_server_a_small_run_takes_place_inside_the_lab_and_says_so(no_server):
    run = staged("naive lock", lock=False)
    assert not run.is_real
    assert (run.world.jobs, run.world.workers) == (10, 4)
    assert "There is no redis-server on this machine, so 10 jobs and 4 workers" in repr(run)
    assert set(run.statuses.values()) == {"completed"}
    assert run.sample().rate(TWICE) > 0
    assert not passes(run)
    assert passes(staged("corrected", lock=False))


def test_a_run_that_was_stopped_says_so(real):
    assert "Time was up" in repr(replace(real, over=False))


def test_a_replay_without_a_server_gives_the_same_trace(redis_url, no_server):
    small, schedule = Staging("naive lock", jobs=1, workers=2, job_seconds=0, small=True), "old-1 old-1 old-2 old-2"
    with redis_server_or_none() as url:
        assert url is None
        assert replay(small, schedule, redis_url=url).table() == replay(small, schedule, redis_url=redis_url).table()


def test_figures_that_differ_each_time_are_in_the_view_and_never_in_what_is_stored(real):
    widget = HereAndNow(real)
    assert "on a real redis-server" in widget.box.value
    assert "redis-server" not in repr(widget)
    assert "redis-server" not in str(widget._repr_mimebundle_())


def test_a_function_that_raises_is_told_where():
    def slip(seen, name):
        return seen.nothing

    message = jobs_needed.check(slip).message
    assert "my_jobs raised AttributeError" in message
    assert "slip, line" in message


def test_a_check_of_other_truth_values_is_no_check():
    assert "Return True or False" in staging_check.check(lambda run: "fine").message
