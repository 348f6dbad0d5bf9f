"""SQL: one SQLite database, one writer, every statement a step."""

import sqlite3
from contextlib import suppress

import pytest

from labkit import Unsupported, explore, replay, run


def stock(work, amount=2, **options):
    def scenario(lab):
        db = lab.sql()
        db.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, left_over INTEGER)")
        db.execute("INSERT INTO stock VALUES ('mug', ?)", (amount,))
        db.execute("CREATE TABLE done (key TEXT PRIMARY KEY)")
        for name in "AB":
            lab.worker(name, work, lab.sql(), lab.mail)
        for name, check in options.items():
            lab.at_end(name, lambda check=check: check(db, lab.mail))

    return scenario


def left_over(db, mail):
    return db.execute("SELECT left_over FROM stock").fetchone()[0]


def read_then_write(db, mail):
    (before,) = db.execute("SELECT left_over FROM stock WHERE item = 'mug'").fetchone()
    db.execute("UPDATE stock SET left_over = ? WHERE item = 'mug'", (before - 1,))
    db.commit()


def write_in_place(db, mail):
    with db:
        db.execute("UPDATE stock SET left_over = left_over - 1 WHERE item = :item", {"item": "mug"})


def test_a_read_then_a_write_loses_an_update():
    verdict = explore(stock(read_then_write, both=lambda db, mail: left_over(db, mail) == 0))
    assert verdict.outcome == "violated"
    assert verdict.counterexample.length == 6


def test_an_update_in_place_does_not():
    assert explore(stock(write_in_place, both=lambda db, mail: left_over(db, mail) == 0)).outcome == "holds"


def test_begin_immediate_makes_the_read_part_of_the_transaction():
    def work(db, mail):
        db.execute("BEGIN IMMEDIATE")
        read_then_write(db, mail)

    assert explore(stock(work, both=lambda db, mail: left_over(db, mail) == 0)).outcome == "holds"


def insert_once(db, mail):
    with db:
        won = db.execute("INSERT INTO done VALUES ('order-1/mail') ON CONFLICT DO NOTHING").rowcount
    if won:
        mail.send("order-1")


def test_an_insert_on_conflict_do_nothing_lets_exactly_one_go_on():
    once = {"once": lambda db, mail: mail.count() == 1}
    assert explore(stock(insert_once, **once)).outcome == "holds"


def test_a_key_committed_before_its_effect_loses_the_effect_in_a_crash():
    once = {"once": lambda db, mail: mail.count() == 1}
    verdict = explore(stock(insert_once, **once), crashes=1)
    assert verdict.outcome == "violated"
    assert verdict.counterexample.length == 5


def test_a_unique_constraint_raises_what_sqlite_raises_and_the_transaction_stays_open():
    def work(db, mail):
        try:
            with db:
                db.execute("INSERT INTO done VALUES ('k')")
            mail.send("inserted")
        except sqlite3.IntegrityError:
            mail.send("refused")

    counts = {"one of each": lambda db, mail: (mail.count("inserted"), mail.count("refused")) == (1, 1)}
    assert explore(stock(work, **counts)).outcome == "holds"


def test_a_second_writer_waits_and_readers_see_what_was_committed():
    def write(db, mail):
        db.execute("UPDATE stock SET left_over = 1")
        db.execute("UPDATE stock SET left_over = 0")
        db.commit()

    def scenario(lab):
        db = lab.sql()
        db.execute("CREATE TABLE stock (left_over INTEGER)")
        db.execute("INSERT INTO stock VALUES (2)")
        for name in "AB":
            lab.worker(name, write, lab.sql(), lab.mail)
        lab.worker("reader", lambda db, mail: mail.send(str(left_over(db, mail))), lab.sql(), lab.mail)
        lab.always("nobody sees what is not committed", lambda: lab.mail.count("1") == 0)
        lab.always("observers neither", lambda: left_over(db, None) != 1)

    assert explore(scenario).outcome == "holds"
    with pytest.raises(Exception, match="waits for what only another can bring"):
        replay(scenario, "A B")


def test_a_crash_rolls_back_and_lets_the_next_writer_in():
    trace = replay(stock(write_in_place, left=lambda db, mail: left_over(db, mail) == 1), "A crash:A B B")
    assert trace.violation is None
    assert trace.over


def test_a_worker_that_ends_without_commit_has_done_nothing():
    def forgetful(db, mail):
        db.execute("UPDATE stock SET left_over = 0")

    assert explore(stock(forgetful, untouched=lambda db, mail: left_over(db, mail) == 2)).outcome == "holds"


def test_a_lost_commit_may_have_happened():
    def work(db, mail):
        try:
            with db:
                db.execute("INSERT INTO done VALUES (1) ON CONFLICT DO NOTHING")
        except sqlite3.OperationalError:
            mail.send("unknown")

    def done(db, mail):
        return db.execute("SELECT count(*) FROM done").fetchone()[0] == 1

    trace = replay(stock(work, done=done), "A lose:A A B B")
    assert trace.violation is None
    assert [event.text for event in trace.events if event.kind == "call"] == ["mail.send(unknown)"]


def test_a_with_block_that_is_left_by_sys_exit_rolls_back_as_sqlite3_does():
    def work(db, mail):
        with suppress(SystemExit), db:
            db.execute("UPDATE stock SET left_over = 0")
            raise SystemExit
        mail.send("stopped")

    trace = replay(stock(work, untouched=lambda db, mail: left_over(db, mail) == 2), "A A A B B B")
    assert [event.text for event in trace.events][1:3] == ["ROLLBACK", "mail.send(stopped)"]
    assert trace.violation is None


def test_two_locks_taken_in_opposite_order_are_reported_as_the_deadlock_they_are():
    def first(db, r):
        db.execute("BEGIN IMMEDIATE")
        r.blpop(["token"])
        db.commit()

    def second(db, r):
        r.blpop(["token"])
        db.execute("BEGIN IMMEDIATE")
        r.rpush("token", "t")
        db.commit()

    def scenario(lab):
        lab.redis().rpush("token", "t")
        lab.worker("A", first, lab.sql(), lab.redis())
        lab.worker("B", second, lab.sql(), lab.redis())
        lab.at_end("both finish", lambda: lab.redis().llen("token") == 0)

    verdict = explore(scenario)
    assert {"A", "B"} <= set(verdict.waiting)
    assert "B may be left waiting: BEGIN IMMEDIATE." in repr(verdict)
    assert "A may be left waiting: BLPOP token 0." in repr(verdict)


def test_cursors_have_the_words_of_the_db_api():
    def work(db, mail):
        cursor = db.cursor()
        cursor.execute("INSERT INTO done VALUES ('a'), ('b'), ('c')")
        assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (3, 3, None)
        cursor.execute("SELECT key FROM done ORDER BY key;")
        assert cursor.description[0][0] == "key"
        assert (cursor.fetchone(), cursor.fetchmany(1), cursor.fetchall()) == (("a",), [("b",)], [("c",)])
        assert list(db.execute("SELECT 1")) == [(1,)]
        db.executemany("INSERT INTO done VALUES (?)", [("d",), ("e",)])
        cursor.executemany("INSERT INTO done VALUES (?)", [("f",)])
        assert db.in_transaction
        db.rollback()
        assert not db.in_transaction
        db.close()
        mail.send("fine")

    def scenario(lab):
        stock(work)(lab)
        del lab.workers["B"]

    trace = run(scenario)
    assert trace.events[-1].ending.error is None
    assert trace.events[-1].text == "mail.send(fine)"


@pytest.mark.parametrize(
    "columns",
    ["(id INTEGER PRIMARY KEY, v)", "(id TEXT PRIMARY KEY, v)", "(id, v)", "(id TEXT PRIMARY KEY, v) WITHOUT ROWID"],
)
def test_every_kind_of_table_keeps_its_rows_between_steps(columns):
    def work(db, mail):
        for number in (3, 1, 2):
            with db:
                db.execute(f"INSERT INTO t VALUES ({number}, 'v{number}')")
        with db:
            db.execute("DELETE FROM t WHERE id = 1")
        mail.send(str(db.execute("SELECT CAST(id AS INTEGER), v FROM t ORDER BY 1").fetchall()))

    def scenario(lab):
        lab.sql().execute(f"CREATE TABLE t {columns}")
        lab.worker("A", work, lab.sql(), lab.mail)

    assert run(scenario).events[-1].text == "mail.send([(2, 'v2'), (3, 'v3')])"


def test_what_the_database_does_not_model_is_refused():
    with pytest.raises(Unsupported, match="does not model PRAGMA"):
        run(stock(lambda db, mail: db.execute("PRAGMA user_version")))
    with pytest.raises(Unsupported, match="write BEGIN IMMEDIATE"):
        run(stock(lambda db, mail: db.execute("begin")))
    with pytest.raises(Unsupported, match="connections have no 'executescript'"):
        run(stock(lambda db, mail: db.executescript("")))


def test_equal_contents_are_one_state_whatever_the_way_to_them():
    def work(db, mail):
        with db:
            db.execute("INSERT INTO done VALUES ('x')")
        with db:
            db.execute("DELETE FROM done")

    verdict = explore(stock(work, empty=lambda db, mail: db.execute("SELECT count(*) FROM done").fetchone() == (0,)))
    assert verdict.outcome == "holds"
    assert verdict.states < 60


def test_a_question_mark_in_a_value_is_no_place_for_the_next_one():
    trace = run(stock(lambda db, mail: db.execute("SELECT ? || ? || '!'", ("why?", 2))))
    assert trace.events[0].text == "SELECT 'why?' || 2 || '!'"
