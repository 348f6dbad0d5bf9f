"""A cache in front of the database, which writes nothing back that a write has overtaken."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from .checks import check_name, milliseconds
from .status import as_text

logger = logging.getLogger(__name__)

COPY, LEASE = "=", "?"  # what a key holds: a copy, or the token of a reader that fetches one
_FILL = """-- fill if the lease is mine
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""


class StatusCache:
    """A read-through cache of statuses. A reader that misses leaves a token; a writer deletes the key, token and all.

    Guarantees: a copy is filled in only if no write came since its reader looked. Without Redis, readers ask the
    database.
    Holds for `cached(StatusCache)`, where a writer overtakes a reader: `A A B B B A`.
    Does not: hide the old status from those who read between a commit and its `forget`; when the writer dies there, for
    one `ttl`. Nor help a reader whose database answers with the past: an old snapshot, or a replica that lags.
    Shown by `cached(StatusCache)`, where a writer dies after its commit: `A A A B B crash:B`.

        try:
            with transaction(db):
                statuses.compare_and_set("1", "completed")
        finally:
            cache.forget("1")

    Parameters
    ----------
    redis: a `redis.Redis` client.
    read: reads the status of an id from the database; None when there is none, which is not cached.
    ttl: seconds that a copy, or a reader's token, is kept.

    Needs Redis 7, for SET with NX and GET.
    Source: leases, in Nishtala et al., Scaling Memcache at Facebook, NSDI 2013, section 3.2.1.
    """

    def __init__(self, redis: Any, read: Callable[[str], str | None], ttl: float = 60) -> None:
        self.redis, self.read, self.ttl_ms = redis, read, milliseconds("ttl", ttl)
        self.fill = redis.register_script(_FILL)

    def get(self, id: str) -> str | None:
        """The status, from the cache or the database."""
        key, token = self.key(id), LEASE + uuid.uuid4().hex
        found: str | None = self.ask(self.redis.set, key, token, nx=True, get=True, px=self.ttl_ms)
        if found is not None and found.startswith(COPY):
            return found.removeprefix(COPY)
        status = self.read(id)
        if found is None and status is not None:  # the token in the cache is ours
            self.ask(self.fill, keys=[key], args=[token, COPY + status, self.ttl_ms])
        return status

    def forget(self, id: str) -> None:
        """Delete the copy, or the reader's token: after a commit, and when it is unknown whether there was one.

        Before the commit it is too early: a reader may look after it, and fill in what was before.
        """
        self.ask(self.redis.delete, self.key(id))

    def key(self, id: str) -> str:
        """The Redis key of a copy."""
        return "status_cache:" + check_name("id", id)

    def ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Redis's reply; without Redis, as if another reader were under way: a broken cache must break nothing else."""
        try:
            return as_text(request(*arguments, **options))
        except RedisError as error:
            logger.warning("Without the cache, a status may be %d ms old: %s", self.ttl_ms, error)
            return LEASE
