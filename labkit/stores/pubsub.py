"""redis-py's publish/subscribe object, inside a worker."""

from __future__ import annotations

import threading
import time
from typing import Any

import redis
from redis.client import PubSub

from labkit.errors import Unsupported


class LabClient(redis.Redis):
    """A redis-py client whose subscriptions belong to a worker of the lab."""

    def pubsub(self, **kwargs: Any) -> LabPubSub:
        return LabPubSub(self.connection_pool, **kwargs)


class LabPubSub(PubSub):
    """redis-py's own, but that nothing in it depends on when Python collects it, or waits in real time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subscribed_event = _Subscribed()

    def __del__(self) -> None:
        """Subscriptions end with `close()` or with the worker; that Python collects an object is no step."""


class _Subscribed(threading.Event):
    """Whether there is any subscription; who waits for one waits on the lab's clock."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None and not self.is_set():
            raise Unsupported("this worker waits for ever for a message, and is subscribed to nothing: subscribe first")
        if timeout and not self.is_set():
            time.sleep(timeout)
        return self.is_set()
