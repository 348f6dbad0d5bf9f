"""Redis streams as plain data: entries, consumer groups, and who has read what and not acknowledged it.

What a group knows of times (when an entry was delivered, when a consumer last came) is kept relative to now, in
milliseconds, so that states which differ in nothing but the time stay one state.
"""

from __future__ import annotations

from typing import Any

from fakeredis.model import StreamEntryKey, StreamGroup, XStream
from fakeredis.model._stream import PelEntry, StreamConsumerInfo, _StreamNode

from labkit.errors import Unsupported
from labkit.interception import EPOCH

Key = tuple[int, int]


def freeze_stream(stream: Any, now: int) -> tuple[Any, ...]:
    """A stream's content.

    Parameters
    ----------
    stream: fakeredis's.
    now: the lab's clock, in microseconds.
    """
    if stream._idmp_map:
        raise Unsupported("the lab does not model XADD with an idempotency id yet; keep the id in a set")
    moment = _milliseconds(now)
    entries = tuple((_key(key), tuple(stream._values_dict[key])) for key in stream._ids)
    nodes = tuple(
        (_key(n.master_id), tuple(n.master_fields), _key(n.last_id), n.live, n.deleted, n.lp_bytes)
        for n in stream._nodes
    )
    groups = tuple(_freeze_group(group, moment) for _, group in sorted(stream._groups.items()))
    counters = (_key(stream._max_deleted_id), stream._entries_added, _key(stream._last_id))
    return entries, nodes, groups, counters


def thaw_stream(frozen: tuple[Any, ...], now: int) -> Any:
    """A stream with this content."""
    entries, nodes, groups, (deleted, added, last) = frozen
    moment, stream = _milliseconds(now), XStream()
    for key, values in entries:
        stream._ids.append(StreamEntryKey(*key))
        stream._values_dict[StreamEntryKey(*key)] = list(values)
    for first, fields, final, live, gone, size in nodes:
        node = _StreamNode(StreamEntryKey(*first), list(fields), StreamEntryKey(*final), live, gone, size)
        stream._nodes.append(node)
    for name, delivered, read, consumers, pending in groups:
        group = StreamGroup(stream, name, StreamEntryKey(*delivered), read)
        for consumer, waiting, attempt, success in consumers:
            info = StreamConsumerInfo(consumer)
            info.pending, info.last_attempt, info.last_success = waiting, moment - attempt, moment - success
            group.consumers[consumer] = info
        for key, owner, idle, times in pending:
            group.pel[StreamEntryKey(*key)] = PelEntry(owner, moment - idle, times)
        stream._groups[name] = group
    stream._max_deleted_id, stream._entries_added = StreamEntryKey(*deleted), added
    stream._last_id = StreamEntryKey(*last)
    return stream


def age_stream(frozen: tuple[Any, ...], elapsed: int) -> tuple[Any, ...]:
    """The content after time has passed, in microseconds: everything pending is idle for longer."""
    entries, nodes, groups, counters = frozen
    more = elapsed // 1_000
    aged = tuple(
        (
            name,
            delivered,
            read,
            tuple((who, waiting, attempt + more, success + more) for who, waiting, attempt, success in consumers),
            tuple((key, owner, idle + more, times) for key, owner, idle, times in pending),
        )
        for name, delivered, read, consumers, pending in groups
    )
    return entries, nodes, aged, counters


def _freeze_group(group: Any, moment: int) -> tuple[Any, ...]:
    consumers = tuple(
        (name, info.pending, moment - info.last_attempt, moment - info.last_success)
        for name, info in sorted(group.consumers.items())
    )
    pending = tuple(
        (_key(key), entry.consumer_name, moment - entry.time_read, entry.times_delivered)
        for key, entry in sorted(group.pel.items())
    )
    return group.name, _key(group.last_delivered_key), group.entries_read, consumers, pending


def _key(key: Any) -> Key:
    return key.ts, key.seq


def _milliseconds(now: int) -> int:
    return EPOCH * 1_000 + now // 1_000
