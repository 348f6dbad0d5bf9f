"""The one place that touches fakeredis's internals: its clock, its expiry, its contents.

Tested by `tests/test_keyspace.py` against the pinned fakeredis, so that an upgrade that moves any of
this fails there and not in a learner's verdict.

Where fakeredis differs from Redis, and the lab sides with Redis (`tests/test_real_redis.py` has a test for each):

- a key is gone *at* its deadline, not a moment later (`RecordingDatabase.expired`);
- XREAD and XREADGROUP that find nothing answer nil under protocol 3, not an empty map (`commands.in_order`);
- EXEC aborts when a watched key has expired (`EmbeddedRedis` keeps the watches itself);
- no keyspace notifications are published, as on a server that nobody configured (`_silent`);
- UNSUBSCRIBE without any subscription is confirmed, with nil (`EmbeddedRedis` keeps the subscriptions itself).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, cast

import redis
from fakeredis._core._database import Database, Item
from fakeredis._core._server import FakeServer
from fakeredis._socket import FakeSocket
from fakeredis.model import ExpiringMembersSet, Hash, XStream, ZSet

from labkit.errors import Unsupported
from labkit.interception import EPOCH, MICROSECONDS
from labkit.stores.streams import freeze_stream, thaw_stream
from labkit.stores.subscriptions import Message, Subscribers

# One key as plain data: its name, its type, its value in sorted order, and the microseconds it has left.
Entry = tuple[bytes, str, Any, int | None]
REDIS_VERSION = (8, 4)


class RecordingDatabase(Database):
    """A fakeredis database that notes which keys are read and written, and where a key is gone at its deadline.

    fakeredis keeps a key until its deadline has passed; Redis answers "gone" at the deadline itself. Going
    past it by a millisecond instead would make states that no real server has.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reads: set[bytes] = set()
        self.writes: set[bytes] = set()

    def expired(self, item: Any) -> bool:
        return item.expireat is not None and _since_epoch(item.expireat) <= _since_epoch(self.time)

    def _remove_expired(self) -> None:
        for key in [key for key, item in self._dict.items() if self.expired(item)]:
            del self._dict[key]

    def __getitem__(self, key: bytes) -> Any:
        self.reads.add(key)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[bytes]:
        self.reads.update(self._dict)
        return super().__iter__()

    def notify_watch(self, key: bytes) -> None:
        self.writes.add(key)
        super().notify_watch(key)


class Listener:
    """Stands in for the socket of a subscriber: keeps what is pushed to it."""

    def __init__(self) -> None:
        self.inbox: list[Message] = []

    def put_response(self, message: list[Any]) -> None:
        """Take a message, as fakeredis hands it to its own sockets."""
        self.inbox.append(tuple(message))


class Keyspace:
    """An embedded Redis whose whole content can be taken out, put back and told the time."""

    def __init__(self) -> None:
        self._server = cast(Any, FakeServer(version=REDIS_VERSION))
        self._server.dbs.clear()
        self._server.dbs.default_factory = lambda: RecordingDatabase(self._server.lock)
        self._database: RecordingDatabase = self._server.dbs[0]
        self._sockets: dict[int, Any] = {}
        self._replies: list[Any] = []
        self._listeners: dict[str, Listener] = {}

    def learn_script(self, sha: bytes, text: bytes) -> None:
        """Put a script into the server's cache, as if it had been loaded long ago."""
        self._server.script_cache[sha] = text

    def execute(self, protocol: int, commands: tuple[tuple[bytes, ...], ...], waits: bool = False) -> tuple[Any, ...]:
        """Execute commands at the time that `serving` has; the replies may be error objects.

        With `waits`, a blocking command answers at once, as it does inside a transaction.
        """
        socket = self._sockets.get(protocol)
        if socket is None:
            socket = cast(Any, FakeSocket(self._server, 0, client_class=redis.Redis, client_info={"resp": protocol}))
            socket.put_response = self._replies.append
            socket._keyspace_notifications = _silent
            self._sockets[protocol] = socket
        self._replies.clear()
        self._database.reads.clear()
        self._database.writes.clear()
        socket._in_transaction = waits
        for command in commands:
            socket._process_command(list(command))
        socket._in_transaction = False
        self._refuse_other_databases(socket)
        return tuple(self._replies)

    def _refuse_other_databases(self, socket: Any) -> None:
        others = [number for number, database in self._server.dbs.items() if number and database._dict]
        if others or socket._db_num:
            for number in others:
                self._server.dbs[number]._dict.clear()
            self._sockets.clear()
            raise Unsupported("the lab models one Redis database, number 0; this command uses another")

    def footprint(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that the last execution read and wrote."""
        reads, writes = self._database.reads, self._database.writes
        return tuple(map(_text, sorted(reads))), tuple(map(_text, sorted(writes)))

    def subscribe(self, subscribers: Subscribers) -> None:
        """Let these connections receive what is published, and no others."""
        self._listeners = {one.connection: Listener() for one in subscribers}
        registries = self._server.subscribers, self._server.psubscribers
        for registry in registries:
            registry.clear()
        for (is_pattern, name), connection in sorted(
            (topic, one.connection) for one in subscribers for topic in one.topics
        ):
            registries[is_pattern][name].add(self._listeners[connection])

    def received(self, subscribers: Subscribers) -> Subscribers:
        """The same connections, with what has been published to them since."""
        inboxes = ((one, self._listeners[one.connection].inbox) for one in subscribers)
        return tuple(one._replace(inbox=(*one.inbox, *new)) for one, new in inboxes)

    def load(self, entries: tuple[Entry, ...], now: int) -> None:
        """Replace the whole content."""
        database = self._database
        contents = database._dict
        contents.clear()
        database._expiry_heap.clear()
        for key, kind, value, left in entries:
            item: Any = Item(thaw_stream(value, now) if kind == "stream" else _THAW[kind](value))
            if left is not None:
                item.expireat = EPOCH + (now + left) / MICROSECONDS
                heapq.heappush(database._expiry_heap, (item.expireat, key))
            contents[key] = item

    def dump(self, now: int) -> tuple[Entry, ...]:
        """The whole content, in an order and a form that depend on nothing but the content."""
        entries: list[Entry] = []
        for key, item in self._database._dict.items():
            left = None if item.expireat is None else _since_epoch(item.expireat) - now
            if left is None or left > 0:
                entries.append((key, *_freeze(key, item.value, now), left))
        entries.sort(key=lambda entry: entry[0])
        return tuple(entries)


def _silent(*_: Any) -> None:
    """What fakeredis publishes about changed keys."""


def _since_epoch(seconds: float) -> int:
    return round((seconds - EPOCH) * MICROSECONDS)


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def _freeze(key: bytes, value: Any, now: int) -> tuple[str, Any]:
    if isinstance(value, bytes):
        return "string", value
    if isinstance(value, list):
        return "list", tuple(value)
    if isinstance(value, Hash) and not value._expirations:
        return "hash", tuple(sorted(value._values.items()))
    if isinstance(value, ExpiringMembersSet) and not any(value._values.values()):
        return "set", tuple(sorted(value._values))
    if isinstance(value, ZSet):
        return "zset", tuple(value._byscore)
    if isinstance(value, XStream):
        return "stream", freeze_stream(value, now)
    what = type(value).__name__
    raise Unsupported(
        f"key {_text(key)!r} holds a {what}, which the lab does not model yet. It models strings, lists, hashes and "
        "sets without expiring members, sorted sets, and streams."
    )


def _thaw_hash(value: tuple[tuple[bytes, bytes], ...]) -> Hash:
    made = Hash()
    made._values.update(value)
    return made


def _thaw_zset(value: tuple[tuple[float, bytes], ...]) -> ZSet:
    made = ZSet()
    for score, member in value:
        made.add(member, score)
    return made


_THAW: dict[str, Callable[[Any], Any]] = {
    "string": bytes,
    "list": list,
    "hash": _thaw_hash,
    "set": lambda members: ExpiringMembersSet(dict.fromkeys(members)),
    "zset": _thaw_zset,
}
