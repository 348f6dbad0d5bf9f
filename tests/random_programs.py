"""Random worker programs: Redis keys, locks, WATCH, scripts, SQL rows, sections, polls, queues, effects, SIGTERM."""

import contextlib
import signal
import sqlite3
import time

import redis

from tests.brute_force import Bounds
from tests.brute_world import FIRST_ROW, TABLE

REDIS = ["get", "set", "set", "take", "delete", "incr", "watch", "script", "transaction"]
PLAIN = ["effect", "sleep", "if"]
SQL = ["insert", "update", "select", "commit", "rollback", "claim"]
# What a case is about: the kinds of its steps, and the endless kinds that one of its programs may end with.
THEMES = {
    "redis": (REDIS + PLAIN, []),
    "sql": (SQL * 2 + PLAIN + ["get", "set"], ["row"]),
    "sections": (["section", "section", "take", "delete", "get", "set", *PLAIN], ["lock"]),
    "polls": (["poll", "get", "set", "set", "delete", "take", *PLAIN], ["wait", "gone", "relay", "lock"]),
    "queue": (["push", "push", "pop", "pop", *PLAIN], ["consume", "await"]),
    "all": (REDIS + PLAIN + SQL + ["section", "poll", "push", "pop"], ["wait", "relay", "lock", "consume", "row"]),
}
ENDLESS = {"row", "wait", "gone", "relay", "lock", "consume", "await"}
AT_MOST = {"poll": 1, "pop": 2}  # per program: more of them would be taken for a poll without end
HANDLERS = ["flag", "flag", "exit", "effect", "delete", "none"]

DELETE_OR_SEVEN = "if redis.call('exists', KEYS[1]) == 1 then return redis.call('del', KEYS[1]) end return 7"


def random_case(chance, longest=4):
    """Programs by worker, and bounds."""
    kinds, endless = THEMES[chance.choice(list(THEMES))]
    workers = chance.choice([2, 2, 2, 3])
    longest = longest if workers == 2 else 2
    programs, signals = {}, chance.choice([0, 0, 0, 0, 0, 0, 1, 2])
    for name in "ABC"[:workers]:
        last = chance.choice(endless) if endless and name == "A" and chance.random() < 0.5 else None
        handler = chance.choice(HANDLERS) if signals and chance.random() < 0.7 else None
        programs[name] = random_program(chance, kinds, longest, last, handler)
    polls = 3 if any(kind == "poll" for one in programs.values() for kind, _ in one.steps) else 2
    crashes, pauses, lost = chance.choice([0, 0, 1]), chance.choice([0, 1, 2]), chance.choice([0, 0, 1])
    return programs, Bounds(crashes, pauses, lost, signals, polls)


def random_program(chance, kinds=(*REDIS, *PLAIN), longest=4, last=None, handler=None):
    """A program of two to `longest` random steps, each of which may depend on the reply before it."""
    steps = []
    for _ in range(chance.randint(2, longest) - (last is not None)):
        kind = chance.choice(kinds)
        if sum(kind == before for before, _ in steps) < AT_MOST.get(kind, longest):
            steps.append((kind, chance.choice("xy")))
    if last:
        steps.append((last, chance.choice("xy")))
    return program_of(steps, careful=chance.random() < 0.5, handler=handler)


def program_of(steps, careful=False, handler=None):
    """A program of given steps, each a kind and a key.

    Parameters
    ----------
    careful: whether it goes on after a lost reply.
    handler: what it does about SIGTERM, see `_Run`; None when nobody sends it any.
    """

    def program(r, world):
        _Run(r, world, steps, careful, handler).go_on(0, None)

    program.steps = steps
    program.signals = handler is not None
    program.endless = any(kind in ENDLESS for kind, _ in steps)
    return program


class _Run:
    """One run of a program. SIGTERM asks it to stop (`flag`), or exits, or has an effect, or deletes x, or kills."""

    def __init__(self, r, world, steps, careful, handler):
        self.r, self.world, self.steps, self.careful = r, world, steps, careful
        self.stopping = False
        handlers = {
            "flag": self._stop,
            "exit": self._exit,
            "effect": lambda: world.effect("bye"),
            "delete": lambda: r.delete("x"),
        }
        if handler in handlers:
            world.on_sigterm(handlers[handler])

    def _stop(self):
        self.stopping = True

    def _exit(self):
        raise SystemExit("told to stop")

    def go_on(self, index, last):
        """Do the steps from `index` on; `last` is the reply to the one before."""
        while index < len(self.steps) and not self.stopping:
            kind, key = self.steps[index]
            if kind == "section":
                with self.world.section("s"):
                    return self.go_on(index + 1, last)
            try:
                last = self._step(kind, key, index, last)
            except (redis.TimeoutError, sqlite3.OperationalError):
                if not self.careful:
                    raise
                last = "lost"
            index += 1
        if self.stopping:
            self.world.effect("stopped")
        return last

    def _step(self, kind, key, index, last):
        if kind == "effect":
            self.world.effect(key)
        elif kind == "sleep":
            self.world.sleep(10 if key == "x" else 7)
        elif kind == "if":
            if last:
                self.world.effect(f"if {last!r}")
        else:
            return getattr(self, f"_{kind}")(key, index)
        return last

    # Redis

    def _get(self, key, index):
        return self.r.get(key)

    def _set(self, key, index):
        return self.r.set(key, index, ex=10 * (1 + index) if index % 2 else None)

    def _take(self, key, index):
        return self.r.set(key, "taken", nx=True, ex=20)

    def _delete(self, key, index):
        return self.r.delete(key)

    def _incr(self, key, index):
        return self.r.incr(key)

    def _script(self, key, index):
        return self.r.eval(DELETE_OR_SEVEN, 1, key)

    def _transaction(self, key, index):
        with self.r.pipeline() as pipe:
            return pipe.set(key, "t", px=15_000).get("y").execute()

    def _watch(self, key, index):
        with self.r.pipeline() as pipe:
            try:
                pipe.watch(key)
                before = pipe.get(key)
                pipe.multi()
                pipe.set(key, f"{before!r}+{index}")
                return pipe.execute()
            except redis.WatchError:
                return "touched"

    def _push(self, key, index):
        return self.r.rpush("q", f"{key}{index}")

    def _pop(self, key, index):
        return self.r.blpop("q", timeout=10)

    # SQL

    def _insert(self, key, index):
        text = "INSERT INTO job VALUES (?, ?) ON CONFLICT DO NOTHING"
        return self.world.db.execute(text, (key, index)).rowcount

    def _update(self, key, index):
        text = "UPDATE job SET value = value + ? WHERE key = ? AND value < 5"
        return self.world.db.execute(text, (1 + index, key)).rowcount

    def _select(self, key, index):
        return self.world.db.execute("SELECT value FROM job WHERE key = ?", (key,)).fetchall()

    def _commit(self, key, index):
        self.world.db.commit()

    def _rollback(self, key, index):
        self.world.db.rollback()

    def _claim(self, key, index):
        with self.world.db:
            return self._insert(key, index)

    # polls

    def _poll(self, key, index):
        for _ in range(2):
            if self.stopping or self.r.get(key):
                return "seen"
            self.world.sleep(10)
        return None

    def _wait(self, key, index):
        with self.world.polling("there", key):
            while not (self.stopping or self.r.get(key)):
                self.world.sleep(10)
        return "seen"

    def _gone(self, key, index):
        with self.world.polling("gone", key):
            while not self.stopping and self.r.exists(key):
                self.world.sleep(10)

    def _lock(self, key, index):
        with self.world.polling("gone", key):
            while not (self.stopping or self.r.set(key, "locked", nx=True, ex=20)):
                self.world.sleep(10)
        with self.world.section("s"):
            self.world.effect("inside")
        self.r.delete(key)

    def _row(self, key, index):
        with self.world.polling("row", key):
            while not (self.stopping or self._select(key, index)):
                self.world.sleep(10)
        return "seen"

    def _relay(self, key, index):
        with self.world.polling("there", key):
            while not self.stopping:
                value = self.r.getdel(key)
                if value:
                    self.world.effect(value.decode(errors="replace"))
                else:
                    self.world.sleep(10)

    def _consume(self, key, index):
        with self.world.polling("item", "q"):
            while not self.stopping:
                item = self.r.blpop("q", timeout=10)
                if item:
                    self.world.effect(item[1].decode())

    def _await(self, key, index):
        return self.r.blpop("q", timeout=0)


class LabWorld:
    """What programs use besides redis-py, on the lab; one for each worker."""

    _shareable = True

    def __init__(self, lab):
        self.service = lab.service("effects")
        self.db, self.section = lab.sql(), lab.section

    def effect(self, key):
        self.service.call(key)

    def sleep(self, seconds):
        time.sleep(seconds)

    def polling(self, what, key):
        return contextlib.nullcontext()

    def on_sigterm(self, handler):
        signal.signal(signal.SIGTERM, lambda *_: handler())


def put_into(lab, programs):
    """Build the world of programs in a lab: a table, and a worker for each."""
    set_up = lab.sql()
    set_up.execute(TABLE)
    set_up.execute(FIRST_ROW)
    for name, program in programs.items():
        signals, endless = getattr(program, "signals", False), getattr(program, "endless", False)
        lab.worker(name, program, lab.redis(), LabWorld(lab), signals=int(signals), forever=endless)
