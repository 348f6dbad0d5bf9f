"""The redis-py connection of the lab: each request that reaches it becomes a step.

redis-py's public `connection_class` is the hook, not `execute_command`: pipelines, scripts and locks all
end up here, in the pieces that a server would execute one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import greenlet
import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import AbstractConnection
from redis.driver_info import DriverInfo
from redis.exceptions import NoScriptError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from labkit.actor import Actor, Lost
from labkit.errors import Unsupported
from labkit.process import Process, current_process
from labkit.stores.commands import CLOSE, NEXT_MESSAGE, SUBSCRIBING, Command, Request, of_a_subscriber
from labkit.stores.pubsub import LabClient
from labkit.stores.scripts import knows_script, learn_script
from labkit.stores.subscriptions import BROKEN

Perform = Callable[[Request], Any]

_PER_CONNECTION = {"SELECT", "MOVE", "CLIENT", "AUTH", "HELLO", "RESET"}
_BY_HAND = {"MULTI", "EXEC", "DISCARD"}
_ADMINISTRATION = {"CONFIG", "SHUTDOWN", "DEBUG", "REPLICAOF", "ACL", "CLUSTER", "FUNCTION", "FCALL", "SWAPDB"}
_REFUSED = {
    **dict.fromkeys(("SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH"), "there are no shards; use SUBSCRIBE and PUBLISH"),
    "MONITOR": "look at the trace instead",
    **dict.fromkeys(_PER_CONNECTION, "there is one database, without users"),
    **dict.fromkeys(_BY_HAND, "use a pipeline, which sends MULTI, commands and EXEC as one"),
    **dict.fromkeys(_ADMINISTRATION, "the embedded Redis has nothing to administer"),
    **dict.fromkeys(("WAIT", "WAITAOF"), "the embedded Redis has no replicas"),
}
_DRIVER = DriverInfo(name=None, lib_version=None)
_LOST = "Connection to the lab's embedded Redis was lost"
_QUIET = MaintNotificationsConfig(enabled=False)


class SortedSet(set):  # type: ignore[type-arg]
    """A set that is walked in order: the order of a plain one follows Python's hash seed, and replays would differ."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


class LabConnection(AbstractConnection):
    """A connection without a socket.

    Parameters
    ----------
    perform: takes one request and gives its replies; a step when a worker's code calls it.
    """

    def __init__(self, *, perform: Perform, **kwargs: Any) -> None:
        super().__init__(driver_info=_DRIVER, **kwargs)
        self._perform = perform
        self._replies: deque[Any] = deque()
        self._name = ""
        self._watches = False
        self._listens = self._connected = self._broken = False
        self._retired = False
        self._owner: Process | None = None

    def connect(self) -> None:
        """A handshake is no step, but redis-py subscribes again after it to what it was subscribed to."""
        if not self._connected:
            self._connected = True
            for callback in [reference() for reference in self._connect_callbacks]:
                if callback is not None:
                    callback(self)

    def disconnect(self, *args: Any, **kwargs: Any) -> None:
        """The server forgets what the connection was subscribed to, and the next PUBLISH does not count it: a step."""
        if self._listens and self._owner is _here():
            self._answer(((CLOSE,),))
        self._replies.clear()
        self._watches = self._listens = self._connected = self._broken = False

    def lend(self) -> None:
        """Speak for whoever runs now, and for nobody else.

        Python may collect a pipeline of an execution that is over while another worker runs; its last words, an
        UNWATCH, must not become that worker's step.
        """
        self._owner = _here()
        self.connect()

    def retire(self) -> None:
        """Answer nothing any more."""
        self.disconnect()
        self._retired, self._owner = True, None

    def can_read(self, timeout: float | None = 0) -> bool:
        """Whether a message is here; to look for one, or to wait, is a step."""
        if not self._replies:
            self._await_message(timeout)
        return self._broken or bool(self._replies)

    def _await_message(self, timeout: float | None) -> None:
        self._refuse_strangers()
        self.connect()
        if not self._broken:
            words = () if timeout is not None and timeout <= 0 else (bytes(self.encoder.encode(timeout or 0)),)
            self._replies.extend(reply for reply in self._answer(((NEXT_MESSAGE, *words),)) if reply is not None)

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[Command]:
        return [self._encode(tuple(words)) for words in commands]

    def send_command(self, *args: Any, **kwargs: Any) -> None:
        self.send_packed_command([self._encode(args)])

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        self._refuse_strangers()
        if self._broken:
            raise redis.ConnectionError(_LOST)
        self.connect()
        group: list[Command] = []
        for words in command:
            group.append(words)
            # MULTI to EXEC in one packet is one step; any other pipeline is a step per command.
            if group[0][0] == b"MULTI" and words[0] != b"EXEC" and len(command) > 1:
                continue
            self._replies.extend(self._answer(tuple(group)))
            group = []

    def _refuse_strangers(self) -> None:
        if self._retired or self._owner is not _here():
            raise redis.ConnectionError("this connection belongs to another execution")

    def read_response(self, disable_decoding: bool = False, push_request: bool = False, **kwargs: Any) -> Any:
        if push_request and not self._replies:
            self._await_message(None)
        if self._broken:
            raise redis.ConnectionError(_LOST)
        if self._listens and not self._replies:
            raise Unsupported("the lab does not model SUBSCRIBE by hand: use `pubsub()`")
        reply = self._replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        reply = reply if disable_decoding else self._decode(reply)
        pushed = push_request and isinstance(reply, list) and int(self.protocol) == 3
        return self._parser.handle_push_response(reply) if pushed else reply

    def _connect(self) -> Any:
        raise NotImplementedError("a lab connection has no socket")

    def _host_error(self) -> str:
        return "the lab's embedded Redis"

    def repr_pieces(self) -> list[tuple[str, Any]]:
        return [("embedded", True)]

    def _encode(self, words: tuple[Any, ...]) -> Command:
        first = words[0].split(" ") if isinstance(words[0], str) else [words[0]]
        encoded = [self.encoder.encode(word) for word in (*first, *words[1:])]
        return (bytes(encoded[0]).upper(), *map(bytes, encoded[1:]))

    def _answer(self, commands: tuple[Command, ...]) -> tuple[Any, ...]:
        """The replies to one group of commands; all but a script's text go through a step."""
        for command in commands:
            _refuse(command, alone=len(commands) == 1)
        name, *words = commands[0]
        if name == b"SCRIPT":
            return (_about_scripts(words),)
        if name == b"EVALSHA" and not knows_script(words[0]):
            return (NoScriptError("No matching script. Please use EVAL."),)
        if name == b"WATCH":
            self._watches = True
        request = self._named(Request(int(self.protocol), commands))
        if name in (b"MULTI", b"UNWATCH"):
            self._watches = False
        replies = self._perform(request)
        if of_a_subscriber(request) and (isinstance(replies, Lost) or list(BROKEN) in replies):
            # A subscriber does not wait for replies: it learns that its connection is gone when it reads or sends.
            self._listens, self._broken = False, True
            return ()
        if isinstance(replies, Lost):
            return (redis.TimeoutError("Timeout reading from the lab's embedded Redis: the reply was lost"),)
        if of_a_subscriber(request) and name != NEXT_MESSAGE:
            self._listens = True
            return ()  # the answers wait at the server, with the messages, to be read
        return tuple(replies)

    def _named(self, request: Request) -> Request:
        """The request, with the connection's name where the server must know it."""
        name = request.commands[0][0]
        if self._listens or of_a_subscriber(request) or (self._watches and name != b"PING"):
            request = request._replace(connection=self._known_name(name))
        if self._listens and not of_a_subscriber(request):
            raise Unsupported(f"{name.decode()} on a connection that is subscribed: send it with the client instead")
        return request

    def forget_name(self) -> None:
        """Be nobody's connection again."""
        self._name = ""

    def _known_name(self, command: bytes) -> str:
        """The name by which the server knows this connection: the worker's, and a number."""
        if not self._name:
            process = current_process()
            if process is None:
                raise Unsupported(
                    f"{command.decode()} belongs into a worker: set-up and observers have no connection of their own"
                )
            process.connections += 1
            self._name = f"{process.name}/{process.connections}"
        return self._name

    def _decode(self, reply: Any) -> Any:
        if isinstance(reply, list):
            return [self._decode(part) for part in reply]
        if isinstance(reply, dict):
            return {self._decode(key): self._decode(value) for key, value in reply.items()}
        return self.encoder.decode(reply) if isinstance(reply, bytes) else reply


class LabPool(redis.ConnectionPool):
    """A pool that can be put back to how it was new, so that building a scenario again is cheap."""

    def __init__(self, **kwargs: Any) -> None:
        # Retired connections are replaced, so there is no end to how many are made.
        super().__init__(
            connection_class=LabConnection, max_connections=2**31, maint_notifications_config=_QUIET, **kwargs
        )
        self._free: list[Any] = []
        self._taken: set[Any] = set()

    def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> Any:
        connection: Any = self._free.pop() if self._free else self.make_connection()
        self._taken.add(connection)
        connection.lend()
        return connection

    def release(self, connection: Any) -> None:
        if connection in self._taken:
            self._taken.remove(connection)
            self._free.append(connection)

    def rewind(self) -> None:
        """Be as new, for another run of the worker: what an abandoned run still holds is retired."""
        for connection in self._taken:
            connection.retire()
        self._taken.clear()
        for connection in self._free:
            connection.disconnect()
            connection.forget_name()


def lab_client(perform: Perform, retries: int, **kwargs: Any) -> redis.Redis:
    """A redis-py client whose requests go to `perform`.

    Parameters
    ----------
    perform: takes one request and gives its replies.
    retries: how often the client sends a request again after a lost connection.
    kwargs: `decode_responses`, `protocol` and the like, as for `redis.Redis`.
    """
    if kwargs.get("db"):
        raise Unsupported("the lab models one Redis database, number 0; tell jobs apart by key prefixes")
    retry = Retry(ExponentialWithJitterBackoff(base=1, cap=10), retries)
    client = LabClient(connection_pool=LabPool(perform=perform, retry=retry, **kwargs))
    for command in ("SMEMBERS", "SINTER", "SUNION", "SDIFF"):
        client.set_response_callback(command, SortedSet)
    return client


def _here() -> Process | None:
    here = greenlet.getcurrent()
    return here.process if isinstance(here, Actor) else None


def _refuse(command: Command, alone: bool) -> None:
    name = command[0].decode(errors="replace")
    instead = _REFUSED.get(name)
    if name == "XREAD" and b"$" in command and b"BLOCK" in [word.upper() for word in command]:
        raise Unsupported("the lab does not model XREAD BLOCK with $: read the stream's last id first, and give that")
    if command[0] in SUBSCRIBING and not alone:
        raise Unsupported(f"the lab does not model {name} in a transaction: use `pubsub()`")
    if command in ((b"SUBSCRIBE",), (b"PSUBSCRIBE",)):
        raise Unsupported(f"{name} names no channel, which Redis answers with an error")
    if command[0] in SUBSCRIBING and any(word.startswith(b"__key") for word in command[1:]):
        raise Unsupported("the lab does not model keyspace notifications: publish a message of your own")
    if instead is not None and (alone or name not in ("MULTI", "EXEC")):
        raise Unsupported(f"the lab does not model {name} yet: {instead}")


def _about_scripts(words: list[bytes]) -> Any:
    what = words[0].upper() if words else b""
    if what == b"LOAD":
        return learn_script(words[1])
    if what == b"EXISTS":
        return [int(knows_script(sha)) for sha in words[1:]]
    raise Unsupported(f"the lab does not model SCRIPT {what.decode(errors='replace')}: scripts are always loaded")
