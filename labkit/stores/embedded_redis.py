"""The embedded Redis as a table: every request runs once on each content, and is remembered."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from redis.lock import Lock

from labkit.errors import Unsupported
from labkit.interception import serving
from labkit.stores import commands
from labkit.stores.base import FOR_EVER, Description, Interned, Outcome
from labkit.stores.clock import ClockWasRead
from labkit.stores.commands import Request
from labkit.stores.keyspace import Entry, Keyspace
from labkit.stores.scripts import learn_script, script_text
from labkit.stores.streams import age_stream
from labkit.stores.subscriptions import Subscribers, break_all, serve

# What a request writes that changes subscriptions or brings messages; no key is called so.
SUBSCRIPTIONS = "(subscriptions)"


class Watch(NamedTuple):
    """What a server knows of a connection that watches keys.

    Parameters
    ----------
    connection: its name.
    keys: the watched keys, sorted; none once one of them was touched, since nothing more can happen then.
    dirty: whether a watched key was touched, so that EXEC will do nothing.
    """

    connection: str
    keys: tuple[str, ...]
    dirty: bool


class Content(NamedTuple):
    """Everything a Redis server holds that can matter.

    Parameters
    ----------
    entries: its keys.
    watches: who watches them.
    subscribers: who is subscribed, and what they have not read.
    replica: what its replica had after each of the last writes that it lacks, oldest first.
    """

    entries: tuple[Entry, ...] = ()
    watches: tuple[Watch, ...] = ()
    subscribers: Subscribers = ()
    replica: tuple[tuple[Entry, ...], ...] = ()


class EmbeddedRedis:
    """Redis states, numbered by content with expiries relative to now.

    Parameters
    ----------
    seed: what the server's own random choices (SPOP, RANDOMKEY) depend on, besides the content.
    absolute: whether the lab's clock belongs to the state; see `Clock`.
    """

    def __init__(self, seed: int = 0, absolute: bool = True) -> None:
        self._seed, self._absolute = seed, absolute
        self.replica_lag = 0  # how many writes the replica is behind; 0 while nobody asks
        self._keyspace = Keyspace()
        self._states = Interned()
        self._outcomes: dict[tuple[int, Request, int], Outcome] = {}
        self._deadlines: dict[int, int | None] = {}
        self._aged: dict[tuple[int, int], int] = {}
        for text in (Lock.LUA_RELEASE_SCRIPT, Lock.LUA_EXTEND_SCRIPT, Lock.LUA_REACQUIRE_SCRIPT):
            learn_script(text.encode())
        self.start = self._states.number(Content())

    def apply(self, state: int, request: Request, now: int) -> Outcome:
        known = (state, request, now)
        outcome = self._outcomes.get(known)
        if outcome is None:
            outcome = self._outcomes[known] = self._execute(state, request, now)
        return outcome

    def _execute(self, state: int, request: Request, now: int) -> Outcome:
        content: Content = self._states.values[state]
        name = request.commands[0][0]
        if name == b"WATCH":
            return self._watch(content, request)
        if commands.of_a_subscriber(request):
            return self._subscribe(content, request)
        own = [watch for watch in content.watches if watch.connection == request.connection]
        others = [watch for watch in content.watches if watch.connection != request.connection]
        if name in (b"UNWATCH", b"DISCARD"):
            return Outcome((b"OK",), self._states.number(content._replace(watches=tuple(others))))
        if name == b"MULTI" and any(watch.dirty for watch in own):
            queued = len(request.commands) - 2
            after = self._states.number(content._replace(watches=tuple(others)))
            return Outcome((b"OK", *[b"QUEUED"] * queued, None), after)
        replies, reads, writes, entries, subscribers = self._run(content, request, now)
        # EXEC ends the watches of its own connection; any other write touches everybody's, one's own too.
        kept = others if name == b"MULTI" else content.watches
        watches = tuple(_touched(watch, writes) for watch in kept)
        after = self._states.number(Content(entries, watches, subscribers, self._followed(content, entries)))
        if subscribers != content.subscribers:
            writes = (*writes, SUBSCRIPTIONS)
        return Outcome(commands.in_order(request, replies), after, reads, writes)

    def _followed(self, before: Content, entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], ...]:
        """What the replica lacks after a request."""
        if not self.replica_lag or entries == before.entries:
            return before.replica
        return (*before.replica, before.entries)[-self.replica_lag :]

    def failover(self, state: int) -> int:
        """The state after the replica has taken over: its last writes are gone, and all connections broke."""
        content: Content = self._states.values[state]
        lost = content.replica[0] if content.replica else content.entries
        watches = tuple(Watch(watch.connection, (), True) for watch in content.watches)
        return self._states.number(Content(lost, watches, break_all(content.subscribers)))

    def _run(self, content: Content, request: Request, now: int) -> tuple[Any, ...]:
        keyspace = self._keyspace
        for command in request.commands:
            if command[0] == b"EVALSHA":
                keyspace.learn_script(command[1], script_text(command[1]))
        read_before, serving.clock_was_read = serving.clock_was_read, False
        # By content, not by number: another search, or a replay, may come to the same content in another order.
        with serving.at(now, random.Random(f"{self._seed}:{content.entries!r}:{request!r}")):
            keyspace.load(content.entries, now)
            keyspace.subscribe(content.subscribers)
            replies = keyspace.execute(request.protocol, request.commands, waits=commands.waits(request) != 0)
            reads, writes = keyspace.footprint()
            entries = keyspace.dump(now)
            subscribers = keyspace.received(content.subscribers)
        for command, reply in zip(request.commands, replies, strict=False):
            if isinstance(reply, Exception) and "unknown command" in str(reply):
                raise Unsupported(f"the lab's embedded Redis does not know {command[0].decode(errors='replace')}")
        reads_clock = serving.clock_was_read or commands.is_absolute(request)
        serving.clock_was_read = read_before
        if reads_clock and not self._absolute:
            raise ClockWasRead
        return replies, reads, writes, entries, subscribers

    def _watch(self, content: Content, request: Request) -> Outcome:
        keys = {word.decode(errors="backslashreplace") for word in request.commands[0][1:]}
        others = [watch for watch in content.watches if watch.connection != request.connection]
        own = next((watch for watch in content.watches if watch.connection == request.connection), None)
        if own is None or not own.dirty:
            own = Watch(request.connection, tuple(sorted(keys.union(own.keys if own else ()))), False)
        after = self._states.number(content._replace(watches=tuple(sorted([*others, own]))))
        return Outcome((b"OK",), after, reads=tuple(sorted(keys)))

    def _subscribe(self, content: Content, request: Request) -> Outcome:
        replies, subscribers = serve(content.subscribers, request)
        after = self._states.number(content._replace(subscribers=subscribers))
        changed = (SUBSCRIPTIONS,) if subscribers != content.subscribers else ()
        return Outcome(replies, after, reads=(SUBSCRIPTIONS,), writes=changed)

    def waits(self, request: Request) -> int:
        seconds = commands.waits(request)
        return FOR_EVER if seconds == FOR_EVER else round(seconds * 1_000_000)

    def ready(self, state: int, request: Request, now: int) -> bool:
        return not commands.is_empty(self.apply(state, request, now).reply[-1])

    def hang_up(self, state: int, connection: str) -> int:
        content: Content = self._states.values[state]
        if not content.watches and not content.subscribers:
            return state
        is_gone = str.startswith if connection.endswith("/") else str.__eq__
        watches = tuple(one for one in content.watches if not is_gone(one.connection, connection))
        subscribers = tuple(one for one in content.subscribers if not is_gone(one.connection, connection))
        return self._states.number(content._replace(watches=watches, subscribers=subscribers))

    def age(self, state: int, elapsed: int) -> int:
        known = (state, elapsed)
        aged = self._aged.get(known)
        if aged is None:
            content: Content = self._states.values[state]
            entries = _aged(content.entries, elapsed)
            gone = {key for key, left in self.expiries(state).items() if left <= elapsed}
            # Since Redis 6.0.9, EXEC fails when a watched key has expired.
            watches = tuple(_touched(watch, gone) for watch in content.watches)
            replica = tuple(_aged(older, elapsed) for older in content.replica)
            left = content._replace(entries=entries, watches=watches, replica=replica)
            aged = self._aged[known] = self._states.number(left)
        return aged

    def deadline(self, state: int) -> int | None:
        if state not in self._deadlines:
            self._deadlines[state] = min(self.expiries(state).values(), default=None)
        return self._deadlines[state]

    def expiries(self, state: int) -> Mapping[str, int]:
        content: Content = self._states.values[state]
        return {key.decode(errors="backslashreplace"): left for key, _, _, left in content.entries if left is not None}

    def describe(self, request: Request) -> Description:
        return commands.describe(request)

    def show_reply(self, request: Request, reply: Any) -> str:
        return commands.show(reply[-1])

    def contents(self, state: int) -> tuple[Entry, ...]:
        content: Content = self._states.values[state]
        return content.entries

    def portable(self, state: int) -> Content:
        value: Content = self._states.values[state]
        return value

    def adopt(self, portable: Content) -> int:
        return self._states.number(portable)


def _aged(entries: tuple[Entry, ...], elapsed: int) -> tuple[Entry, ...]:
    """What is left of keys after some time; a key is gone at its deadline."""
    return tuple(
        (key, kind, _aged_value(kind, value, elapsed), None if left is None else left - elapsed)
        for key, kind, value, left in entries
        if left is None or left > elapsed
    )


def _aged_value(kind: str, value: Any, elapsed: int) -> Any:
    return age_stream(value, elapsed) if kind == "stream" else value


def _touched(watch: Watch, keys: Iterable[str]) -> Watch:
    if watch.dirty or not set(watch.keys).intersection(keys):
        return watch
    return Watch(watch.connection, (), True)
