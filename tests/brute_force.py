"""Every schedule, executed from the start, with no caching: the independent judge of the search.

It shares no code with the lab's engine: it has its own greenlets, connections and clock (`brute_world`), and its own
idea of what is enabled. Programs are functions of a redis-py client and a `World`.
"""

import contextlib
import random
from typing import NamedTuple

from fakeredis._core._database import Database

from tests.brute_world import START, Time, World, stage

TWICE, TOGETHER, MISSING = "no effect happens twice", "at most one is inside", "x exists at the end"


class Bounds(NamedTuple):
    """What may go wrong in one execution, and after how many unchanged rounds a poll without end is left alone.

    With `polls=None` it never is: it goes on until everything repeats itself.
    """

    crashes: int = 0
    pauses: int = 0
    lost: int = 0
    signals: int = 0
    polls: int | None = 3


class _Execution:
    def __init__(self, programs, bounds):
        self.stage = stage()
        self.stage.rewind()
        self.database = self.stage.server.dbs[0]
        self.left = {"crash": bounds.crashes, "lose": bounds.lost, "signal": bounds.signals}
        self.pauses, self.polls, self.seen = bounds.pauses, bounds.polls, set()
        self.length = 0
        self.broken = {}
        self.workers = [World(self.stage, name) for name in programs]
        self.stage.worlds.update((worker.name, worker) for worker in self.workers)
        for worker, program in zip(self.workers, programs.values(), strict=True):
            worker.begin(program)
        self._judge()

    def enabled(self):
        live = [worker for worker in self.workers if worker.status == "running"]
        ready = [worker for worker in live if worker.want.ready() and not self._alone(worker)]
        deadlines = self._deadlines(live)
        choices = []
        if not self._goes_round(live, ready):
            choices += [("step", worker) for worker in ready]
            choices += [("clock", None)] if live and deadlines and (not ready or self.pauses > 0) else []
        if self.left["crash"]:
            choices += [("crash", worker) for worker in live]
        if self.left["lose"]:
            choices += [("lose", worker) for worker in ready if worker.want.travels]
        if self.left["signal"]:
            choices += [("signal", worker) for worker in live if worker.signals and not worker.signalled]
        return choices

    def _alone(self, worker):
        """Whether a worker polls, has done so in vain for long enough, and would do so again."""
        polls = worker.news is not None and worker.want.period > 0
        return polls and self.polls is not None and worker.unchanged >= self.polls and not worker.news()

    def _goes_round(self, live, ready):
        """Whether it has come back to where it was, with everybody waiting, and only polls have moved since."""
        if self.polls is not None or ready:
            return False
        waits = [(one.want.what, one.news is None, one.want.until and one.want.until - Time.now) for one in live]
        here = self.outcome(), tuple(waits)
        before = here in self.seen
        self.seen.add(here)
        return before

    def _expiries(self):
        return [round((item.expireat - START) * 1e6) for item in self.database._dict.values() if item.expireat]

    def _deadlines(self, live):
        wakes = [worker.want.until for worker in live if worker.want.until is not None and not self._alone(worker)]
        return [at for at in self._expiries() + wakes if at > Time.now]

    def take(self, kind, worker):
        self.length += kind != "step" or worker.want.counts
        if kind in self.left:
            self.left[kind] -= 1
        if kind in self.left or (kind == "step" and worker.news is None):
            self.seen.clear()  # something else than a poll has moved
        if kind == "clock":
            self._tick()
        elif kind == "crash" or (kind == "signal" and worker.handler is None):
            worker.over("crashed")
        elif kind == "signal":
            worker.signalled = True
            worker.advance("signal")
        else:
            worker.advance(kind)
        self._judge()

    def _tick(self):
        live = [worker for worker in self.workers if worker.status == "running"]
        alone = [worker for worker in live if self._alone(worker)]
        if any(worker.want.ready() for worker in live if worker not in alone):
            self.pauses -= 1
        then = min(self._deadlines(live))
        for worker in alone:  # it goes on polling in vain, at its own times
            while worker.want.until < then:
                worker.want.until += worker.want.period
        Time.now = then
        for key in [key for key, item in self.database._dict.items() if item.expireat]:
            if round((self.database._dict[key].expireat - START) * 1e6) <= Time.now:
                del self.database._dict[key]
                with self.stage.server.lock:
                    self.database.notify_watch(key)  # as Redis does, and fakeredis does not

    def _judge(self):
        effects = self.stage.effects
        inside = [worker for worker in self.workers if worker.status == "running" and worker.sections]
        if len(effects) > len(set(effects)):
            self.broken.setdefault(TWICE, self.length)
        if len(inside) > 1:
            self.broken.setdefault(TOGETHER, self.length)

    def outcome(self):
        keys = []
        for key, item in sorted(self.database._dict.items()):
            left = round((item.expireat - START) * 1e6) - Time.now if item.expireat else None
            keys.append((key, tuple(item.value) if isinstance(item.value, list) else item.value, left))
        return tuple(keys), tuple(self.stage.effects), self.stage.rows(), tuple(one.status for one in self.workers)

    def let_go(self):
        """End what is still suspended, now that all is written down; Python would keep it for ever."""
        for worker in self.workers:
            while not worker.greenlet.dead:
                with contextlib.suppress(Exception, SystemExit):
                    worker.greenlet.throw()


class Judged:
    """What brute force found: the final outcomes, and the length of the shortest violation of each property."""

    def __init__(self):
        self.outcomes, self.shortest = set(), {}

    def violated(self, name, length):
        self.shortest[name] = min(length, self.shortest.get(name, length))


def judged(programs, bounds, monkeypatch, cap):
    """Execute every schedule: the set of final outcomes, and the length of the shortest violation of each property.

    None when there are more than `cap` schedules.
    """
    for module in ("fakeredis._socket._base", "fakeredis._helpers"):
        monkeypatch.setattr(f"{module}.time", type("clock", (), {"time": staticmethod(Time.seconds)}))
    monkeypatch.setattr(Database, "expired", lambda self, item: False)  # expiry is taken care of above
    if _guessed_number(programs, bounds) > 2 * cap:
        return None
    found, todo = Judged(), [()]
    for _ in range(cap):
        todo += _execute(programs, bounds, found, todo.pop())
        if not todo:
            return found.outcomes, found.shortest
    return None


def _execute(programs, bounds, found, prefix):
    """Execute one schedule that begins with a prefix of picks; the prefixes that it did not follow."""
    execution, others, place = _Execution(programs, bounds), [], 0
    try:
        while True:
            choices = execution.enabled()
            if not any(kind in ("step", "clock") for kind, _ in choices):
                found.outcomes.add(execution.outcome())
                if b"x" not in execution.database._dict:
                    found.violated(MISSING, execution.length)
            if not choices:
                break
            if place < len(prefix):
                pick = prefix[place]
            else:
                pick = 0
                others += [(*prefix, other) for other in range(1, len(choices))]
                prefix = (*prefix, 0)
            execution.take(*choices[pick])
            place += 1
        for name, length in execution.broken.items():
            found.violated(name, length)
    finally:
        execution.let_go()
    return others


def _guessed_number(programs, bounds, probes=6):
    """About how many schedules there are, from a few random ones: the mean product of their numbers of choices."""
    chance, total = random.Random(0), 0
    for _ in range(probes):
        execution, product = _Execution(programs, bounds), 1
        while choices := execution.enabled():
            product *= len(choices)
            execution.take(*chance.choice(choices))
        execution.let_go()
        total += product
    return total / probes
