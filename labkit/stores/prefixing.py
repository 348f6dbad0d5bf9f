"""A prefix of the lab's own on every key and channel that is sent to a real Redis server, and off what it answers.

No key without the prefix is read or written, and nothing is published to a channel without it; scripts included.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import redis

from labkit.errors import LabError
from labkit.stores.commands import SUBSCRIBING, Command
from labkit.stores.scripts import script_text

# What PUBSUB says of channels that one can name; the rest is about everybody's.
ABOUT_CHANNELS = {b"CHANNELS", b"NUMSUB", b"SHARDCHANNELS", b"SHARDNUMSUB"}
_WHOLE_SERVER = {b"FLUSHALL", b"FLUSHDB", b"SCAN", b"DBSIZE", b"SWAPDB", b"RANDOMKEY", b"MONITOR", b"SHUTDOWN"}
_KEYLESS = {b"MULTI", b"EXEC", b"UNWATCH", b"DISCARD", b"TIME", b"PING", b"ECHO", b"SCRIPT", b"WAIT", b"WAITAOF"}
_EVALS = {b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO"}
# In front of a script: the channels that it names itself get the prefix too, and keys without it are out of reach.
# `several` says where commands have keys that do not have one alone, in front: from, to (0 the last, -1 the one before
# it), in steps of.
_IN_SCRIPTS = b"""
local prefix = '%s'
local keyless = {time = true, ping = true, echo = true, info = true}
local several = {
  {1, 0, 1, 'del unlink exists touch mget sinter sunion sdiff sinterstore sunionstore sdiffstore pfcount pfmerge'},
  {1, 0, 2, 'mset msetnx'}, {1, -1, 1, 'blpop brpop bzpopmin bzpopmax'}, {2, 0, 1, 'bitop'},
  {1, 2, 1, 'rename renamenx rpoplpush copy smove lmove lcs geosearchstore zrangestore brpoplpush blmove'},
  {2, 2, 1, 'object xgroup xinfo memory'}, {1, 0, 1, 'sort sort_ro georadius georadiusbymember'},
}
local counted = {zunion = 1, zinter = 1, zdiff = 1, sintercard = 1, zintercard = 1, lmpop = 1, zmpop = 1,
  zunionstore = 2, zinterstore = 2, zdiffstore = 2}
local function places(command, words)
  if counted[command] then return 1, counted[command] + tonumber(words[counted[command]]), 1 end
  for place, word in ipairs(words) do
    if string.find(command, '^xread') and string.lower(word) == 'streams' then
      return place + 1, place + (#words - place) / 2, 1
    end
  end
  for _, group in ipairs(several) do
    if string.find(' ' .. group[4] .. ' ', ' ' .. command .. ' ', 1, true) then
      return group[1], group[2] > 0 and group[2] or #words + group[2], group[3]
    end
  end
  return 1, 1, 1
end
local function is_ours(value)
  return string.sub(tostring(value), 1, #prefix) == prefix
end
local function prefixed(name, ...)
  local command, words = string.lower(name), {...}
  if keyless[command] then return name, ... end
  if command == 'publish' and not is_ours(words[1]) then return name, prefix .. words[1], select(2, ...) end
  local first, last, step = places(command, words)
  for place = first, math.max(first, last), step do
    if not is_ours(words[place]) and place ~= counted[command] then
      error('the script leaves the prefix of the lab with ' .. name .. ': it must take every key through KEYS')
    end
  end
  return name, ...
end
local server = redis
local redis = setmetatable({
  call = function(...) return server.call(prefixed(...)) end,
  pcall = function(...) return server.pcall(prefixed(...)) end,
}, {__index = server})
"""


class Prefix:
    """The lab's corner of a server.

    Parameters
    ----------
    client: a client of the server, which is asked where commands have their keys.
    text: the prefix; a new one if None.
    loads: whether scripts are loaded before each use; otherwise that is left to whoever sends them.
    """

    def __init__(self, client: redis.Redis, text: bytes | None = None, loads: bool = True) -> None:
        self.text = text or f"labkit:{uuid.uuid4().hex[:12]}:".encode()
        self._client, self._loads = client, loads
        described: dict[str | bytes, dict[str, Any]] = client.command()  # type: ignore[assignment]
        self._commands = {as_bytes(name).upper(): about for name, about in described.items()}

    def put_on(self, command: Command) -> Command:
        """The command, about the lab's keys and channels only; `LabError` when it is about more than those."""
        if command[0] in _WHOLE_SERVER:
            raise LabError(f"{command[0].decode()} concerns a whole server, and is not sent to a real one")
        if command[0] == b"SCRIPT" and command[1].upper() not in (b"LOAD", b"EXISTS"):
            raise LabError(f"SCRIPT {command[1].decode()} is about everybody's, and is not sent to a real server")
        if command[0] in (b"SORT", b"SORT_RO") and any(map(_looks_elsewhere, command[2:], command[3:])):
            raise LabError(f"{command[0].decode()} looks into keys by a pattern, and is not sent to a real server")
        if command[0] == b"KEYS":
            return (command[0], self.text + command[1])
        if command[0] == b"PUBSUB":
            return self._about_channels(command)
        if command[0] in SUBSCRIBING:
            return (command[0], *(self.text + name for name in command[1:]))
        words = list(self._within_scripts(command))
        for place in self.key_places(command):
            words[place] = self.text + words[place]
        return tuple(words)

    def take_off(self, reply: Any) -> Any:
        """A reply as it would be without the prefix."""
        if isinstance(reply, bytes):
            return reply.removeprefix(self.text)
        if isinstance(reply, (list, tuple, set, frozenset)):
            return [self.take_off(part) for part in reply]
        if isinstance(reply, dict):
            return {self.take_off(key): self.take_off(value) for key, value in reply.items()}
        return reply

    def script(self, text: bytes) -> bytes:
        """The script, which then reaches no channel and no key without the prefix."""
        return _IN_SCRIPTS % self.text + text

    def writes(self, command: Command) -> bool:
        """Whether a command is one that changes keys; of scripts nobody knows."""
        return "write" in self._commands.get(command[0], {}).get("flags", ())

    def key_places(self, command: Command) -> list[int]:
        """Where a command has its keys, as the server itself says."""
        if command[0] in _EVALS:
            return list(range(3, 3 + int(command[2])))
        if command[0] in _KEYLESS:
            return []
        if command[0] == b"PUBLISH":
            return [1]
        about = self._commands.get(command[0], {})
        if about.get("first_key_pos", 0) > 0 and "movablekeys" not in about["flags"]:
            last = about["last_key_pos"]
            end = last if last >= 0 else len(command) + last
            return list(range(about["first_key_pos"], end + 1, about["step_count"]))
        return self._movable_key_places(command)

    def made(self) -> Iterator[bytes]:
        """Every key with the prefix that the server has."""
        yield from map(as_bytes, self._client.scan_iter(match=self.text + b"*", count=1_000))

    def _movable_key_places(self, command: Command) -> list[int]:
        keys = [as_bytes(key) for key in self._client.command_getkeys(*command)]
        for start in range(1, len(command) - len(keys) + 1):
            for step in (1, 2):  # MSET has a value after each key
                places = list(range(start, start + step * len(keys), step))
                if places[-1] < len(command) and [command[place] for place in places] == keys:
                    return places
        if keys[1:] and command[1] == keys[0] and list(command[3 : 3 + len(keys) - 1]) == keys[1:]:
            return [1, *range(3, 3 + len(keys) - 1)]  # destination, number of keys, keys
        raise LabError(f"cannot tell where {command[0].decode()} has its keys, so it is not sent to a real server")

    def _about_channels(self, command: Command) -> Command:
        what = command[1].upper()
        names = command[2:] or ((b"*",) if what.endswith(b"CHANNELS") else ())
        return (*command[:2], *(self.text + name if what in ABOUT_CHANNELS else name for name in names))

    def _within_scripts(self, command: Command) -> Command:
        if command[0] in (b"EVAL", b"EVAL_RO"):
            return (command[0], self.script(command[1]), *command[2:])
        if command[0] in (b"EVALSHA", b"EVALSHA_RO") and (text := script_text(command[1])):
            return (command[0], self._sha_of(self.script(text)), *command[2:])
        if command[0] == b"SCRIPT" and command[1].upper() == b"LOAD":
            return (*command[:2], self.script(command[2]))
        return command

    def _sha_of(self, text: bytes) -> bytes:
        return as_bytes(self._client.script_load(text)) if self._loads else hashlib.sha1(text).hexdigest().encode()


def _looks_elsewhere(word: bytes, pattern: bytes) -> bool:
    """Whether two words of SORT have it look into keys that it does not name."""
    return word.upper() in (b"BY", b"GET") and pattern.lower() not in (b"nosort", b"#")


def as_bytes(word: Any) -> bytes:
    """A word of a reply, also when its client decodes them."""
    return word if isinstance(word, bytes) else str(word).encode()
