"""Broken searches: each forgets a part of the state, or a rule. The comparison with brute force must catch it."""

from labkit.engine import Engine, Move
from labkit.judge import Judge
from labkit.machine import DEAD, Machine, Pending
from labkit.stores.base import Outcome
from labkit.stores.embedded_redis import EmbeddedRedis
from labkit.stores.keyspace import Keyspace
from labkit.stores.services import ServiceLog
from labkit.stores.sql import SqlDatabase


def forget_times_to_live(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "deadline", lambda self, state: None)


def merge_whatever_time_is_left(monkeypatch):
    dump = Keyspace.dump
    cut = lambda self, now: tuple((*entry[:3], entry[3] and 10_000_000) for entry in dump(self, now))  # noqa: E731
    monkeypatch.setattr(Keyspace, "dump", cut)


def go_a_millisecond_past_the_deadline(monkeypatch):
    age = EmbeddedRedis.age
    monkeypatch.setattr(EmbeddedRedis, "age", lambda self, state, elapsed: age(self, state, max(0, elapsed - 1_000)))


def forget_watches(monkeypatch):
    watch = EmbeddedRedis._watch

    def forgetful(self, content, request):
        return Outcome(watch(self, content, request).reply, self._states.number(content))

    monkeypatch.setattr(EmbeddedRedis, "_watch", forgetful)


def forget_that_an_expiry_touches_a_watch(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "age", _ageing_without_touching)


def _ageing_without_touching(self, state, elapsed):
    content = self._states.values[state]
    entries = tuple(
        (*e[:3], None if e[3] is None else e[3] - elapsed) for e in content.entries if (e[3] or 10**12) > elapsed
    )
    return self._states.number(content._replace(entries=entries))


def keep_watches_when_a_reply_is_lost(monkeypatch):
    hang_up = EmbeddedRedis.hang_up
    keep = lambda self, state, name: hang_up(self, state, name) if name.endswith("/") else state  # noqa: E731
    monkeypatch.setattr(EmbeddedRedis, "hang_up", keep)


def forget_effects(monkeypatch):
    monkeypatch.setattr(ServiceLog, "apply", lambda self, state, request, now: Outcome("done", state))


def forget_replies(monkeypatch):
    after = Machine.after
    monkeypatch.setattr(Machine, "after", lambda self, moment, actor, *_: after(self, moment, actor, None, wrote=False))


def take_a_wake_up_that_is_due_for_none(monkeypatch):
    """The trap `False == 0`: numbering a sleeper by whether it sleeps, not by how long."""
    number = Machine.number

    def merged(self, moment, waits):
        sleeps = id(moment), tuple(map(bool, waits))
        known = self._numbers.get(sleeps)
        if known is None:
            known = self._numbers[sleeps] = number(self, moment, waits)
        return known

    monkeypatch.setattr(Machine, "number", merged)


def forget_how_many_pauses_are_left(monkeypatch):
    tick = Engine._tick

    def free(self, state):
        after = list(tick(self, state))
        after[self._budget["clock"]] = state[self._budget["clock"]]
        return tuple(after)

    monkeypatch.setattr(Engine, "_tick", free)


def crash_for_free(monkeypatch):
    take = Engine.take

    def free(self, state, code):
        move = take(self, state, code)
        after = list(move.state)
        after[self._budget["crash"]] = state[self._budget["crash"]]
        return Move(move.code, move.cost, tuple(after))

    monkeypatch.setattr(Engine, "take", free)


def skip_steps_that_seem_independent(monkeypatch):
    """A reduction as it is usually written: of steps on different keys, try one order only. The clock breaks it."""
    moves = Engine.moves

    def fewer(self, state):
        found = moves(self, state)
        steps = [move for move in found if move.code < len(self.machines)]
        if len(steps) > 1 and len({self._touched(state, move.code) for move in steps}) == len(steps):
            return [steps[0], *(move for move in found if move.code >= len(self.machines))]
        return found

    def touched(self, state, worker):
        return repr(self.moment_of(state, worker).operation)[:80]

    monkeypatch.setattr(Engine, "_touched", touched, raising=False)
    monkeypatch.setattr(Engine, "moves", fewer)


def forget_an_open_transaction(monkeypatch):
    execute = SqlDatabase._execute

    def forgetful(self, state, request):
        outcome = execute(self, state, request)
        committed = self._states.values[outcome.state]._replace(owner="", working=None)
        return Outcome(outcome.reply, self._states.number(committed), outcome.reads, outcome.writes)

    monkeypatch.setattr(SqlDatabase, "_execute", forgetful)


def forget_what_an_open_transaction_did(monkeypatch):
    execute = SqlDatabase._execute

    def forgetful(self, state, request):
        outcome = execute(self, state, request)
        after = self._states.values[outcome.state]
        after = after._replace(working=after.committed if after.owner else None)
        return Outcome(outcome.reply, self._states.number(after), outcome.reads, outcome.writes)

    monkeypatch.setattr(SqlDatabase, "_execute", forgetful)


def keep_the_transaction_of_a_dead_worker(monkeypatch):
    monkeypatch.setattr(SqlDatabase, "hang_up", lambda self, state, connection: state)


def commit_what_a_dead_worker_did(monkeypatch):
    hang_up = SqlDatabase.hang_up

    def committing(self, state, connection):
        before = self._states.values[state]
        gone = hang_up(self, state, connection) != state
        return self._states.number(type(before)(before.working)) if gone else state

    monkeypatch.setattr(SqlDatabase, "hang_up", committing)


def let_two_workers_write_at_a_time(monkeypatch):
    monkeypatch.setattr(SqlDatabase, "ready", lambda self, state, request, now: True)


def keep_a_dead_worker_in_its_section(monkeypatch):
    take, view = Engine.take, Judge._view

    def remembering(self, state, code):
        if code != self.clock_code:
            kind, worker, _ = self.codes.meaning(code)
            if kind == "crash" and self.moment_of(state, worker).situation.sections:
                self.judge.ghosts.add(worker)
        return take(self, state, code)

    def haunted(self, state):
        insides, key = view(self, state)
        ghosts = [worker for worker in self.ghosts if state[self._first_worker + worker] == DEAD]
        return {"s": insides.get("s", 0) + len(ghosts)}, (key, len(ghosts))

    monkeypatch.setattr(Judge, "ghosts", set(), raising=False)
    monkeypatch.setattr(Engine, "take", remembering)
    monkeypatch.setattr(Judge, "_view", haunted)


def never_tell_a_poller_that_something_is_new(monkeypatch):
    monkeypatch.setattr(Machine, "_would_differ", lambda self, number, pending, state: False)


def wake_a_poller_as_soon_as_something_is_new(monkeypatch):
    is_able = Machine._is_able

    def hasty(self, number, pending, state):
        return is_able(self, number, pending._replace(left=0) if pending.idle else pending, state)

    may_be_able = property(lambda self: self.blocks or self.idle)
    monkeypatch.setattr(Machine, "_is_able", hasty)
    monkeypatch.setattr(Pending, "may_be_able", may_be_able)


def forget_that_a_wait_for_an_element_ends(monkeypatch):
    monkeypatch.setattr(EmbeddedRedis, "ready", lambda self, state, request, now: False)


def begin_an_interrupted_wait_again(monkeypatch):
    arrive = Machine._arrive
    monkeypatch.setattr(Machine, "_arrive", lambda self, moment, waits, interrupted=0: arrive(self, moment, {}))


def forget_a_wait_while_a_handler_takes_steps(monkeypatch):
    number = Machine.number
    monkeypatch.setattr(Machine, "number", lambda self, moment, waits: number(self, moment, (*waits[:-1], 0)))


def signal_a_worker_again_and_again(monkeypatch):
    monkeypatch.setattr(Engine, "_had", lambda self, state, worker, word: False)


MUTANTS = [
    forget_times_to_live,
    merge_whatever_time_is_left,
    go_a_millisecond_past_the_deadline,
    forget_watches,
    forget_that_an_expiry_touches_a_watch,
    keep_watches_when_a_reply_is_lost,
    forget_effects,
    forget_replies,
    take_a_wake_up_that_is_due_for_none,
    forget_how_many_pauses_are_left,
    crash_for_free,
    skip_steps_that_seem_independent,
    forget_an_open_transaction,
    forget_what_an_open_transaction_did,
    keep_the_transaction_of_a_dead_worker,
    commit_what_a_dead_worker_did,
    let_two_workers_write_at_a_time,
    keep_a_dead_worker_in_its_section,
    never_tell_a_poller_that_something_is_new,
    wake_a_poller_as_soon_as_something_is_new,
    forget_that_a_wait_for_an_element_ends,
    begin_an_interrupted_wait_again,
    forget_a_wait_while_a_handler_takes_steps,
    signal_a_worker_again_and_again,
]
