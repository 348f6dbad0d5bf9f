"""`replay` and `run`: the same trace, every time, anywhere."""

import subprocess
import sys

import pytest

from labkit import Schedule, ScheduleError, explore, replay, run
from tests.programs import article_fix, naive, sound_fix


def test_the_counterexample_replays_byte_for_byte():
    counterexample = explore(article_fix, crashes=1, pauses=1).counterexample
    again = replay(article_fix, str(counterexample.schedule))
    assert again == counterexample
    assert again.table(source=True) == counterexample.table(source=True)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_another_process_replays_byte_for_byte(hash_seed):
    counterexample = explore(sound_fix_broken, crashes=1, pauses=1).counterexample
    code = (
        "from labkit import replay; from tests.test_replay import sound_fix_broken as scenario;"
        f"trace = replay(scenario, {str(counterexample.schedule)!r});"
        "print(trace.table(source=True), repr(trace.events), sep='', end='')"
    )
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert out.stdout == counterexample.table(source=True) + repr(counterexample.events)


def sound_fix_broken(lab):
    """The sound fix with a property that it cannot meet, for a long trace with random tokens in it."""
    sound_fix(lab)
    lab.at_end("nothing was published", lambda: lab.events.count() == 0)


def over_a_set(lab):
    lab.redis().sadd("s", *"abcdefgh")

    def work(r):
        for member in r.smembers("s"):
            r.rpush("seen", member)
        with r.pipeline() as pipe:
            pipe.sunion("s", "t")
            for member in pipe.execute()[0]:
                r.rpush("seen", member)

    lab.worker("A", work, lab.redis())


def test_a_walk_over_a_set_is_the_same_under_every_hash_seed():
    code = "from labkit import run; from tests.test_replay import over_a_set; print(run(over_a_set).table(), end='')"
    seen = set()
    for seed in ("0", "1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": ""}
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        seen.add(out.stdout)
    assert seen == {run(over_a_set).table()}


def test_a_run_with_the_same_seed_is_the_same_and_other_seeds_differ():
    tables = [run(naive, seed=seed).table() for seed in range(8)]
    assert tables == [run(naive, seed=seed).table() for seed in range(8)]
    assert len(set(tables)) > 1


def test_a_run_takes_no_faults_and_ends():
    trace = run(article_fix, seed=3)
    assert trace.over
    assert not any(choice.is_fault for choice in trace.schedule)


def test_every_schedule_prints_as_a_line_that_reads_back():
    text = "A A B clock B crash:A worker-2.x"
    assert str(Schedule.parse(text)) == text
    assert Schedule.parse(Schedule.parse(text)) == Schedule.parse(text)


@pytest.mark.parametrize("word", ["crash:", "crush:A", ":", "A,B", "lose:clock:A"])
def test_a_word_that_is_no_choice_is_named(word):
    with pytest.raises(ScheduleError, match="is not a choice"):
        Schedule.parse(f"A {word}")


def test_an_unknown_worker_is_named_with_those_that_exist():
    with pytest.raises(ScheduleError, match="choice 2, `C`: there is no worker C; there are A, B"):
        replay(naive, "A C")


def test_a_choice_that_is_not_enabled_is_named_with_those_that_are():
    with pytest.raises(
        ScheduleError, match=r"choice 4, `A`, is not possible: A has returned. Possible: `B`, `crash:B`"
    ):
        replay(naive, "A A A A")


def test_a_clock_choice_without_a_deadline_is_refused():
    with pytest.raises(ScheduleError, match="there is no deadline to go to"):
        replay(naive, "clock")


def test_a_fault_on_a_spared_worker_is_refused():
    with pytest.raises(ScheduleError, match="R is spared"):
        replay(sound_fix, "crash:R")


def test_a_schedule_that_is_too_long_says_how_much():
    with pytest.raises(ScheduleError, match="over after 4 choices; the schedule has 2 too many, from `B` on"):
        replay(naive, "A A A B B B")


def test_a_schedule_that_stops_early_says_so_and_judges_no_end():
    trace = replay(naive, "A")
    assert not trace.over
    assert trace.waiting == ("A", "B")
    assert "the schedule ends before A and B did" in trace.headline


def test_an_empty_schedule_is_an_execution_of_no_steps():
    assert replay(naive, "").events == ()


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ScheduleError, match="a schedule is text"):
        replay(naive, 7)


def draws_a_member(lab):
    jobs = lab.redis()
    jobs.sadd("waiting", *"abcdef")

    def draw(r):
        r.set("drawn", r.spop("waiting"))

    def count(r):
        r.incr("n")
        r.incr("n")

    lab.worker("A", draw, lab.redis())
    lab.worker("B", count, lab.redis())
    lab.worker("C", count, lab.redis())
    for member in b"abcdef":
        lab.always(f"{member:c} stays", lambda member=member: jobs.get("drawn") != bytes([member]))


def test_what_the_server_draws_depends_on_its_content_so_that_a_counterexample_replays():
    violations = explore(draws_a_member).violations  # raised Nondeterminism when it depended on the search's numbers
    assert len(violations) > 1
    for name, trace in violations.items():
        assert name in [broken.property for broken in replay(draws_a_member, trace.schedule).violations]
