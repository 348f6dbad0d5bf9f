"""An execution that is taken choice by choice, and back, and looked at in between."""

import signal
import threading

import pytest

from labkit import ScenarioError, ScheduleError, explore
from labkit.budgets import Budgets
from labkit.frames import as_text
from labkit.incidents import DEPLOY
from labkit.play import Play


def handle(r, mail):
    seen = r.get("order:1:mailed")
    if seen is None:
        r.set("order:1:mailed", "yes", ex=30)
        mail.send("order-1")


def two_handlers(lab):
    for name in "AB":
        lab.worker(name, handle, lab.redis(), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)
    lab.at_end("the mail went out", lambda: lab.mail.count("order-1") >= 1)


def test_a_choice_is_taken_and_undone_and_redone():
    play = Play(two_handlers)
    start = str(play)
    play.take("A")
    after = str(play)
    assert str(play.schedule) == "A"
    play.undo()
    assert str(play) == start
    assert str(play.ahead) == "A"
    play.redo()
    assert str(play) == after
    play.reset()
    assert str(play) == start


def test_another_choice_than_the_one_undone_forgets_what_lay_ahead_and_the_same_keeps_it():
    play = Play(two_handlers, "A B A")
    play.reset()
    play.take("A")
    assert str(play.ahead) == "B A"
    play.take("A")
    assert not play.ahead


def test_a_worker_shows_its_source_with_the_current_line_and_its_local_variables():
    play = Play(two_handlers, "A")
    view = play.workers[0]
    (frame,) = view.frames
    assert frame.lines[frame.current - frame.first].strip() == 'r.set("order:1:mailed", "yes", ex=30)'
    assert dict(frame.variables) == {"r": "a redis.Redis", "mail": "a Service", "seen": "None"}
    assert view.text == "next SET order:1:mailed yes EX 30"


def test_a_variable_that_is_not_set_yet_has_its_place_and_a_worker_that_is_gone_its_source():
    play = Play(two_handlers, "A A A")
    gone, waiting = play.workers
    assert gone.status == "returned"
    assert [frame.function for frame in gone.frames] == ["handle"]
    assert dict(waiting.frames[-1].variables)["seen"] == ""
    assert "line" not in str(play).splitlines()[1]


def test_a_worker_that_raised_says_what_and_where():
    def raising(r):
        r.set("key", "text")
        r.incr("key")

    def scenario(lab):
        lab.worker("A", raising, lab.redis())

    play = Play(scenario, "A A")
    assert play.workers[0].status == "raised"
    assert play.workers[0].text.startswith("raised ResponseError")


def test_the_functions_that_a_worker_is_in_are_shown_from_the_outermost_to_the_innermost():
    def write(r, value):
        r.set("key", value)

    def work(r):
        write(r, 7)

    def scenario(lab):
        lab.worker("A", work, lab.redis())

    outer, inner = Play(scenario).workers[0].frames
    assert (outer.function, inner.function) == ("work", "write")
    assert (outer.line, inner.line) == ("write(r, 7)", 'r.set("key", value)')
    assert dict(inner.variables)["value"] == "7"


def test_a_thread_is_looked_at_like_a_worker_and_its_step_is_a_choice():
    def beat(r):
        r.set("beat", 1)

    def work(r):
        thread = threading.Thread(target=beat, args=(r,), name="beat")
        thread.start()
        thread.join()

    def scenario(lab):
        lab.worker("A", work, lab.redis())

    play = Play(scenario)
    assert [view.name for view in play.workers] == ["A", "A/beat"]
    assert play.workers[0].status == "waits"
    play.take("A/beat")
    assert [str(choice) for choice in play.choices] == ["A"]


def test_rows_are_shown_with_their_columns_and_an_open_transaction_apart():
    def buy(db):
        db.execute("UPDATE stock SET pieces = pieces - 1")
        db.commit()

    def scenario(lab):
        db = lab.sql()
        db.execute("CREATE TABLE stock (item TEXT, pieces INTEGER)")
        db.execute("INSERT INTO stock VALUES ('tea', 10)")
        lab.worker("A", buy, lab.sql())

    play = Play(scenario, "A")
    assert [(held.name, held.value) for held in play.holdings] == [
        ("stock", "(item tea, pieces 10)"),
        ("(open transaction of A)", "stock: (item tea, pieces 9)"),
    ]
    play.take("A")
    assert [(held.name, held.value) for held in play.holdings] == [("stock", "(item tea, pieces 9)")]


def test_every_kind_of_key_is_shown():
    def scenario(lab):
        r = lab.redis()
        r.rpush("list", "a", "b")
        r.hset("hash", mapping={"f": "1", "g": "2"})
        r.sadd("set", "y", "x")
        r.zadd("zset", {"m": 1.5})
        r.xadd("stream", {"k": "v"})
        lab.worker("A", lambda r: r.get("list"), lab.redis())

    shown = {held.name: held.value for held in Play(scenario).holdings}
    assert shown == {
        "list": "[a, b]",
        "hash": "{f: 1, g: 2}",
        "set": "{x, y}",
        "zset": "m at 1.5",
        "stream": "1 entry",
    }


def test_scenarios_of_the_lab_show_their_own_code_and_not_the_parts_they_use():
    play = Play(DEPLOY.scenario((), "slow job"))
    modules = {frame.function for view in play.workers for frame in view.frames}
    assert modules == {"work"}


def test_keys_are_shown_with_what_they_have_left_and_effects_with_their_number():
    play = Play(two_handlers, "A B A B A B")
    assert [(held.name, held.value, held.ttl) for held in play.holdings] == [
        ("order:1:mailed", "yes", "30 s left"),
        ("order-1", "twice", ""),
    ]
    assert [str(prop) for prop in play.properties] == [
        "✗ at most one mail: broken at step 6",
        "✓ the mail went out: holds so far",
    ]


def test_what_is_not_possible_is_refused_with_the_reason_and_changes_nothing():
    play = Play(two_handlers, "A")
    before = str(play)
    with pytest.raises(ScheduleError, match="no crash is left; `crashes=` says how many there may be"):
        play.take("crash:A")
    with pytest.raises(ScheduleError, match="choice 5, `A`, is not possible: A has returned"):
        play.paste("A A A B A")
    with pytest.raises(ScheduleError, match="there is no worker C"):
        play.take("C")
    assert str(play) == before


def test_budgets_say_what_may_go_wrong():
    play = Play(two_handlers, "", Budgets(crashes=1))
    assert [str(choice) for choice in play.choices] == ["A", "B", "crash:A", "crash:B"]
    play.take("crash:A")
    assert [str(choice) for choice in play.choices] == ["B"]
    assert play.workers[0].text == "was killed"


def test_it_goes_on_in_another_thread_as_notebooks_need_since_clicks_come_in_one_of_their_own():
    play = Play(two_handlers, "A B")
    play.undo()
    failed = []

    def click():
        try:
            play.redo()
            play.take("A")
            play.undo()
        except BaseException as error:
            failed.append(error)

    for _ in range(2):
        thread = threading.Thread(target=click)
        thread.start()
        thread.join()
        play.undo()
    assert not failed
    assert str(play.schedule) == "A"
    assert play.workers[0].frames


def test_a_counterexample_knows_the_scenario_that_it_came_from():
    trace = explore(two_handlers).counterexample
    scenario, seed, _ = trace.origin
    play = Play(scenario, trace.schedule, seed=seed)
    assert play.trace == trace
    assert play.explore().counterexample == trace


def test_pauses_and_faults_that_are_left_are_counted():
    play = Play(two_handlers, "", Budgets(crashes=1, pauses=1, lost_replies=2))
    assert (play.left("crash"), play.left("clock"), play.left("lose")) == (1, 1, 2)
    play.paste("A A clock lose:B crash:A")
    assert (play.left("crash"), play.left("clock"), play.left("lose")) == (0, 0, 1)
    assert Play(two_handlers, "", Budgets(pauses=None)).left("clock") is None


def test_a_schedule_that_does_not_fit_leaves_everything_as_it_was_what_was_undone_too():
    play = Play(two_handlers, "A B A")
    play.undo()
    with pytest.raises(ScheduleError):
        play.paste("A A A A")
    assert (str(play.schedule), str(play.ahead)) == ("A B", "A")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "'text'"),
        (b"bytes", "b'bytes'"),
        ([1, 2, 3, 4, 5, 6, 7], "[1, 2, 3, 4, 5, …]"),
        ({"b", "a"}, "{'a', 'b'}"),
        ({"k": (1, None)}, "{'k': (1, None)}"),
        (len, "function len"),
        (signal.SIGTERM, "Signals.SIGTERM"),
        (object(), "an object"),
        ("x" * 100, "'" + "x" * 58 + "…"),
        (Budgets(), "Budgets(crashes=0, lost_replies=0, pauses=0, polls=3, jumps…"),
    ],
)
def test_values_are_shown_in_few_words_without_addresses(value, text):
    assert as_text(value) == text


def test_no_code_of_the_learners_runs_to_show_a_value():
    def refuse(*_):
        raise AssertionError("somebody looked")

    own = {"__repr__": refuse, "__getattr__": refuse, "__call__": refuse, "__len__": refuse}
    order, text = type("Order", (), own), type("Text", (str,), own)
    assert as_text({order(), order()}) == "{an Order, an Order}"
    assert as_text(text("x")) == "a Text"


def test_a_scenario_that_cannot_be_built_says_so_at_once():
    with pytest.raises(ScenarioError, match="has no workers"):
        Play(lambda lab: None)
