"""Publish/subscribe by hand: every schedule of small programs, on a server of a few lines that shares no code.

A program is a list of operations: `("subscribe", channel)`, `("psubscribe", pattern)`, `("unsubscribe", channel)`,
`("publish", channel, text)`, `("read",)` which waits for nothing, `("wait",)` which waits for ever, `("close",)`. It
ends by saying what its operations answered.
"""

from fnmatch import fnmatchcase

KINDS = [
    "subscribe",
    "subscribe",
    "psubscribe",
    "unsubscribe",
    "publish",
    "publish",
    "publish",
    "read",
    "wait",
    "close",
]


def random_operations(chance, longest=4):
    """A program of two to `longest` operations; it waits only while it is subscribed."""
    operations, is_subscribed = [], False
    for _ in range(chance.randint(2, longest)):
        kind, channel = chance.choice(KINDS), chance.choice(["ab", "ac"])
        if kind in ("read", "wait", "unsubscribe") and not is_subscribed:
            kind = "subscribe"
        if kind in ("subscribe", "psubscribe", "unsubscribe", "close"):
            is_subscribed = kind.endswith("psubscribe") or kind == "subscribe"
        words = {"publish": (channel, chance.choice("xy")), "psubscribe": (chance.choice(["a*", "*b"]),)}
        without = kind in ("read", "wait", "close")
        operations.append((kind, *(() if without else words.get(kind, (channel,)))))
    return operations


def outcomes(programs, crashes):
    """What each worker may have said in the end, or None, over every schedule with at most this many crashes.

    A state is all that there is: per worker how far it is, what it was answered, its subscriptions and its stream.
    """
    found, seen = set(), set()
    todo = [(crashes, tuple((0, (), frozenset(), ()) for _ in programs))]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        left, workers = state
        after = [
            (left, moved) for worker in range(len(programs)) if (moved := step(programs, workers, worker)) is not None
        ]
        if not after:
            done = [at > len(program) for (at, *_), program in zip(workers, programs, strict=True)]
            found.add(tuple(said if over else None for over, (_, said, *_) in zip(done, workers, strict=True)))
        if left:
            for worker, (at, *_) in enumerate(workers):
                if at != GONE and at <= len(programs[worker]):
                    after.append((left - 1, put(workers, worker, (GONE, (), frozenset(), ()))))
        todo += after
    return found


GONE = -1


def put(workers, place, one):
    return (*workers[:place], one, *workers[place + 1 :])


def step(programs, workers, worker):
    """The workers after one of them took its next operation; None when it cannot."""
    at, said, topics, stream = workers[worker]
    if at == GONE or at > len(programs[worker]):
        return None
    if at == len(programs[worker]):
        return put(workers, worker, (at + 1, said, frozenset(), ()))
    kind, *words = programs[worker][at]
    if kind == "wait" and not stream:
        return None
    if kind == "publish":
        receivers = 0
        for place, (*before, theirs, inbox) in enumerate(workers):
            sent = messages(theirs, *words)
            receivers += len(sent)
            workers = put(workers, place, (*before, theirs, inbox + sent))
        return put(workers, worker, (at + 1, (*said, receivers), topics, workers[worker][3]))
    if kind in ("read", "wait"):
        return put(workers, worker, (at + 1, (*said, stream[0] if stream else None), topics, stream[1:]))
    if kind == "close":
        topics, stream = frozenset(), ()
    else:
        topics = topics - {("subscribe", *words)} if kind == "unsubscribe" else topics | {(kind, *words)}
        stream = (*stream, (kind, *words, len(topics)))
    return put(workers, worker, (at + 1, said, topics, stream))


def messages(topics, channel, text):
    """What a connection with these subscriptions is sent: for its channel, then for each pattern."""
    direct = (("message", channel, text),) if ("subscribe", channel) in topics else ()
    patterns = sorted(name for kind, name in topics if kind == "psubscribe" and fnmatchcase(channel, name))
    return direct + tuple(("pmessage", channel, text, pattern) for pattern in patterns)
