"""Random worker programs over a few keys: reads, writes, locks, expiries, WATCH, effects, sleeps, lost replies."""

import redis

KINDS = ["get", "set", "set", "take", "delete", "incr", "effect", "sleep", "if", "watch", "script", "transaction"]

DELETE_OR_SEVEN = "if redis.call('exists', KEYS[1]) == 1 then return redis.call('del', KEYS[1]) end return 7"


def random_program(chance, longest=4):
    """A program of two to `longest` random steps, each of which may depend on the reply before it."""
    steps = [(chance.choice(KINDS), chance.choice("xy")) for _ in range(chance.randint(2, longest))]
    return program_of(steps, careful=chance.random() < 0.5)


def program_of(steps, careful=False):
    """A program of given steps, each a kind and a key; a careful one goes on after a lost reply."""

    def program(r, world):
        last = None
        for index, (kind, key) in enumerate(steps):
            try:
                last = one_step(r, world, kind, key, index, last)
            except redis.TimeoutError:
                if not careful:
                    raise
                last = "lost"

    program.steps = steps
    return program


def one_step(r, world, kind, key, index, last):
    if kind == "get":
        return r.get(key)
    if kind == "set":
        return r.set(key, index, ex=10 * (1 + index) if index % 2 else None)
    if kind == "take":
        return r.set(key, "taken", nx=True, ex=20)
    if kind == "delete":
        return r.delete(key)
    if kind == "incr":
        return r.incr(key)
    if kind == "script":
        return r.eval(
            "if redis.call('exists', KEYS[1]) == 1 then return redis.call('del', KEYS[1]) end return 7", 1, key
        )
    if kind == "transaction":
        with r.pipeline() as pipe:
            return pipe.set(key, "t", px=15_000).get("y").execute()
    if kind == "watch":
        return watched(r, key, index)
    if kind == "effect":
        world.effect(key)
    elif kind == "sleep":
        world.sleep(10)
    elif last:
        world.effect(f"if {last!r}")
    return last


def watched(r, key, index):
    with r.pipeline() as pipe:
        try:
            pipe.watch(key)
            before = pipe.get(key)
            pipe.multi()
            pipe.set(key, f"{before!r}+{index}")
            return pipe.execute()
        except redis.WatchError:
            return "touched"


def random_case(chance, longest=4):
    """Programs by worker, and budgets: crashes, pauses, lost replies."""
    workers = chance.choice([2, 2, 2, 3])
    programs = {name: random_program(chance, longest if workers == 2 else 2) for name in "ABC"[:workers]}
    return programs, (chance.choice([0, 0, 1]), chance.choice([0, 1, 2]), chance.choice([0, 0, 1]))
