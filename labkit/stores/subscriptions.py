"""Who is subscribed to which channels, and what was sent to them that they have not read: at most once, in order.

fakeredis delivers (`Keyspace.subscribe`), so that PUBLISH in a transaction or a script is one with the rest of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from labkit.stores.commands import CLOSE, NEXT_MESSAGE, Request

# What a server pushes to a subscriber: the kind of message, then a channel, a pattern, a text or a count.
Message = tuple[Any, ...]
# What is there to read, once, of a connection that broke.
BROKEN: Message = (b"connection lost",)
# What one can be subscribed to: whether it is a pattern, and the channel's name or the pattern.
Topic = tuple[bool, bytes]


class Subscriber(NamedTuple):
    """What a server knows of a connection that is subscribed to something.

    Parameters
    ----------
    connection: its name.
    topics: what it is subscribed to, sorted.
    inbox: the messages that it has not read, oldest first.
    """

    connection: str
    topics: tuple[Topic, ...] = ()
    inbox: tuple[Message, ...] = ()


Subscribers = tuple[Subscriber, ...]


def serve(subscribers: Subscribers, request: Request) -> tuple[tuple[Any, ...], Subscribers]:
    """What a subscriber's request is answered, and who is subscribed then, sorted.

    All answers but that to reading wait in the inbox, behind what was sent before: a connection is read in order.
    """
    name, *words = request.commands[0]
    own = next((one for one in subscribers if one.connection == request.connection), Subscriber(request.connection))
    replies: tuple[Any, ...]
    if name == NEXT_MESSAGE:
        replies, own = own.inbox[:1] or (None,), own._replace(inbox=own.inbox[1:])
    elif BROKEN in own.inbox:
        replies, own = (BROKEN,), Subscriber(request.connection)
    elif name == CLOSE:
        replies, own = (b"OK",), Subscriber(request.connection)
    else:
        replies, topics = (_pong(own, request), own.topics) if name == b"PING" else _subscribe(own, name, words)
        own = Subscriber(request.connection, topics, own.inbox + replies)
    others = [one for one in subscribers if one.connection != request.connection]
    plain = tuple(list(reply) if isinstance(reply, tuple) else reply for reply in replies)
    return plain, tuple(sorted([*others, own] if own.topics or own.inbox else others))


def break_all(subscribers: Subscribers) -> Subscribers:
    """The same connections, broken: they are subscribed to nothing, and learn it when they read or send."""
    return tuple(Subscriber(one.connection, inbox=(BROKEN,)) for one in subscribers)


def _subscribe(own: Subscriber, name: bytes, words: list[bytes]) -> tuple[tuple[Message, ...], tuple[Topic, ...]]:
    """(P)SUBSCRIBE and (P)UNSUBSCRIBE confirm each channel, with the number of subscriptions that is left."""
    is_pattern, ends = name.startswith(b"P"), name.endswith(b"UNSUBSCRIBE")
    topics = set(own.topics)
    confirmed: list[Message] = []
    for word in words or [word for pattern, word in own.topics if pattern == is_pattern]:
        (topics.discard if ends else topics.add)((is_pattern, word))
        confirmed.append((name.lower(), word, len(topics)))
    return tuple(confirmed or [(name.lower(), None, len(topics))]), tuple(sorted(topics))


def _pong(own: Subscriber, request: Request) -> tuple[Any, ...]:
    text = request.commands[0][1:2]
    return ((b"pong", *(text or (b"",))),) if own.topics and request.protocol == 2 else text or (b"PONG",)
