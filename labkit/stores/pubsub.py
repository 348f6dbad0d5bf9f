"""redis-py's publish/subscribe object, inside a worker."""

from __future__ import annotations

from typing import Any

import redis
from redis.client import PubSub


class LabClient(redis.Redis):
    """A redis-py client whose subscriptions are a worker's."""

    def pubsub(self, **kwargs: Any) -> LabPubSub:
        return LabPubSub(self.connection_pool, **kwargs)


class LabPubSub(PubSub):
    """redis-py's own, but that nothing in it depends on when Python collects it."""

    def __del__(self) -> None:
        """Subscriptions end with `close()` or with the worker; that Python collects an object is no step."""
