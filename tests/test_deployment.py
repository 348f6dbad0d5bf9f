"""What a rolling deploy does to workers: with handles that only note it, and with real processes."""

import multiprocessing
import signal
import subprocess
import sys

import pytest

from labkit.workers import DeployFailed, Deployment, Handle, ProcessHandle


class Noted:
    """A worker that notes what is done to it, and ends when it is told to, if it is obedient."""

    def __init__(self, name, notes, obedient=True):
        self.name, self.notes, self.obedient, self.alive = name, notes, obedient, True

    def start(self):
        self.notes.append(f"start {self.name}")

    def terminate(self):
        self.notes.append(f"terminate {self.name}")
        self.alive = self.alive and not self.obedient

    def kill(self):
        self.notes.append(f"kill {self.name}")
        self.alive = False

    def is_alive(self):
        return self.alive

    def join(self, timeout=None):
        self.notes.append(f"join {self.name}" if timeout is None else f"wait for {self.name}")


def test_the_new_generation_starts_before_the_old_one_is_told_to_stop_and_then_killed():
    notes, log = [], []
    old = [Noted("A", notes, obedient=False), Noted("B", notes)]
    killed = Deployment("v2", emit=log.append).roll(old, [Noted("C", notes), Noted("D", notes)])
    assert killed == old[:1]
    assert notes == [
        *("wait for A", "wait for B", "start C", "start D", "terminate A", "terminate B"),
        *("wait for A", "wait for B", "kill A", "join A"),
    ]
    assert [(event["event"], event["worker_id"]) for event in log] == [
        *(("worker.started", "C"), ("worker.started", "D")),
        *(("worker.terminated", "A"), ("worker.terminated", "B"), ("worker.killed", "A")),
    ]
    assert {event["deployment_id"] for event in log} == {"v2"}


def test_the_grace_period_is_one_for_all_workers(monkeypatch):
    notes, waits, now = [], [], [100.0]

    class Slow(Noted):
        def join(self, timeout=None):
            if "terminate" in " ".join(self.notes):
                waits.append(timeout)
                now[0] += min(20, timeout)

    monkeypatch.setattr("labkit.workers.deployment.time.monotonic", lambda: now[0])
    Deployment("v2", grace_period=30).roll([Slow(name, notes) for name in "ABC"], [])
    assert waits == [30, 10, 0]


def test_when_a_new_worker_does_not_start_the_old_ones_are_left_alone():
    notes = []
    with pytest.raises(FileNotFoundError):
        Deployment("v2").roll([Noted("A", notes)], [ProcessHandle("B", ["no-such-program-as-this"])])
    assert notes == ["wait for A"]


def test_the_old_generation_is_left_alone_until_the_new_one_is_ready(monkeypatch):
    notes, asked = [], []
    monkeypatch.setattr("labkit.workers.deployment.time.sleep", lambda seconds: notes.append("sleep"))

    def ready(handle):
        asked.append(handle.name)
        return len(asked) > 2

    Deployment("v2", ready=ready).roll([Noted("A", notes)], [Noted("B", notes)])
    assert notes == ["wait for A", "start B", "sleep", "sleep", "terminate A", "wait for A"]


class Mortal(Noted):
    """A new worker that lives for so many looks."""

    def __init__(self, name, notes, looks):
        super().__init__(name, notes)
        self.looks = looks

    def is_alive(self):
        self.looks -= 1
        return self.looks >= 0


@pytest.mark.parametrize(("looks", "ready"), [(0, True), (3, False), (1, True)], ids=["at once", "soon", "once ready"])
def test_a_new_worker_that_dies_at_its_start_ends_the_deploy_and_leaves_the_old_ones_alone(monkeypatch, looks, ready):
    notes = []
    monkeypatch.setattr("labkit.workers.deployment.time.sleep", lambda seconds: None)
    with pytest.raises(DeployFailed, match="new worker B has ended; see its log"):
        Deployment("v2", ready=lambda handle: ready).roll([Noted("A", notes)], [Mortal("B", notes, looks)])
    assert notes == ["wait for A", "start B"]


def test_a_new_worker_that_is_never_ready_ends_the_deploy_when_its_time_is_over(monkeypatch):
    notes, now = [], [100.0]
    monkeypatch.setattr("labkit.workers.deployment.time.monotonic", lambda: now[0])
    monkeypatch.setattr("labkit.workers.deployment.time.sleep", lambda seconds: now.append(now.pop() + seconds))
    with pytest.raises(DeployFailed, match="new worker B was not ready within 5 s"):
        Deployment("v2", ready=lambda handle: False, ready_within=5).roll([Noted("A", notes)], [Noted("B", notes)])
    assert notes == ["wait for A", "start B"]
    assert 105 <= now[0] < 105.2


def test_by_default_a_new_worker_that_will_die_of_a_bad_setting_is_taken_for_ready():
    notes, bad = [], ProcessHandle("B", [sys.executable, "-c", "input(); raise SystemExit('bad setting')"], **PIPES)
    Deployment("v2").roll([Noted("A", notes)], [bad])
    assert "terminate A" in notes
    bad.process.communicate("go on\n")
    assert bad.process.returncode == 1


@pytest.mark.parametrize("kind", ["ProcessHandle", "multiprocessing"])
def test_an_old_worker_that_was_never_started_is_refused_before_anything_starts(kind):
    notes = []
    process = multiprocessing.get_context("spawn").Process(target=print, name="A")
    old = ProcessHandle("A", ["true"]) if kind == "ProcessHandle" else process
    with pytest.raises(ValueError, match="old worker A was never started"):
        Deployment("v2").roll([old], [Noted("B", notes)])
    assert notes == []


# A worker whose queue and whose job are both on its standard input, so that the test says when what happens.
PROGRAM = """
import sys
from types import SimpleNamespace
from labkit.workers import Worker

class Pipe:
    def receive(self, wait):
        print("polls", flush=True)
        line = sys.stdin.readline().strip()
        return [SimpleNamespace(body=line, receipt_handle=line, id=line, receive_count=1)] if line else []

    def delete(self, receipt_handle):
        print("acks", receipt_handle, flush=True)
        return True

def handle(job):
    print("begins", job.body, flush=True)
    print("ends", job.body, "after", sys.stdin.readline().strip(), flush=True)

Worker(Pipe(), handle, worker_id="A").run(stop_when_empty=True)
print("stops", flush=True)
"""
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


class WithPipes(ProcessHandle):
    """A worker process that the test talks to."""

    def __init__(self, name):
        super().__init__(name, [sys.executable, "-c", PROGRAM], **PIPES)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hears(self):
        return self.process.stdout.readline().strip()


class LastLine(WithPipes):
    """Its job goes on when SIGTERM has been sent."""

    def terminate(self):
        super().terminate()
        self.say("SIGTERM")


@pytest.fixture
def workers():
    """Makes worker processes, and ends those that are left."""
    made = []

    def make(kind, name):
        made.append(kind(name))
        return made[-1]

    yield make
    for handle in made:
        if handle.is_alive():
            handle.kill()
        handle.join()
        handle.process.stdin.close()
        handle.process.stdout.close()


def begin(old):
    old.start()
    old.say("job-1")
    assert [old.hears(), old.hears()] == ["polls", "begins job-1"]


def test_a_real_worker_finishes_the_job_in_hand_and_takes_no_other(workers):
    old, new = workers(LastLine, "A"), workers(WithPipes, "B")
    begin(old)
    assert Deployment("v2").roll([old], [new]) == []
    assert old.process.stdout.read().split("\n") == ["ends job-1 after SIGTERM", "acks job-1", "stops", ""]
    assert old.process.returncode == 0
    assert new.is_alive()
    assert new.hears() == "polls"
    new.process.stdin.close()  # the queue is empty
    new.join()
    assert new.process.returncode == 0
    new.terminate()  # too late, and no error


def test_a_real_worker_whose_job_takes_longer_than_the_grace_period_is_killed_without_an_ack(workers):
    old = workers(WithPipes, "A")
    begin(old)
    assert Deployment("v2", grace_period=0).roll([old], []) == [old]
    assert old.process.stdout.read() == ""
    assert old.process.returncode == -signal.SIGKILL


def test_a_process_of_multiprocessing_is_a_handle_too():
    context = multiprocessing.get_context("spawn")
    handle: Handle = context.Process(target=print, name="A")
    handle.start()
    Deployment("v2").roll([handle], [])
    assert not handle.is_alive()


def test_a_handle_is_started_once_and_before_anything_else():
    handle = ProcessHandle("A", [sys.executable, "-c", "pass"])
    assert not handle.is_alive()
    with pytest.raises(RuntimeError, match="worker A was not started"):
        handle.terminate()
    handle.start()
    with pytest.raises(RuntimeError, match="worker A was started before"):
        handle.start()
    handle.join()
    assert not handle.is_alive()
