"""What workers that log nothing did, from their requests to a `VisibilityQueue` of `labkit.queues`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from labkit.trace import Event

_REQUEST = re.compile(r"script '(send|receive|delete|change visibility)' queue:([\w-]+) (.*)", re.DOTALL)
_MESSAGE = re.compile(r"\[([\w-]+-\d{6,}), (.*?), (\d+), \d+\]", re.DOTALL)


class QueueRequests:
    """Reads requests one after another, and remembers whose message is which job.

    A worker that receives a message works on it until it deletes it, or gives it back. What a request or its reply
    says in another way is passed over: such a worker logs nothing, and nothing is made up for it.
    """

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, Any]] = {}  # of each message

    def read(self, event: Event) -> Iterator[dict[str, Any]]:
        """The events that a worker would have logged after a step."""
        found = _REQUEST.fullmatch(event.text)
        worker = event.choice.process
        if found is None or worker is None or event.choice.kind != "step":
            return
        title, queue, rest = found.groups()
        about = {"worker_id": worker, "queue": queue}
        if title == "send":
            _, _, body = rest.split(" ", 2)  # behind the time and the delay
            yield {"event": "job.enqueued", **self._learn(event.reply.strip("[]"), body), **about}
        elif title == "receive":
            for id, body, count in _MESSAGE.findall(event.reply):
                for word in ("job.received", "job.started"):
                    yield {"event": word, **self._learn(id, body), "attempt": int(count), **about}
        else:
            id, count = rest.split()[:2]
            ids = {**self._ids.get(id, {"job_id": id}), "attempt": int(count)}
            result = {"result": "ok" if event.reply == "[1]" else "stale"}
            kept = "job.extended" if "/" in (event.worker or "") else "job.released"  # a thread is a heartbeat
            yield {"event": "job.acked" if title == "delete" else kept, **ids, **result, **about}

    def _learn(self, id: str, body: str) -> dict[str, Any]:
        """The ids of a message: those in its body, where they are, and the message's own for the job."""
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        said = said if isinstance(said, dict) else {}
        known = {name: said[name] for name in ("job_id", "event_id", "order_id") if name in said}
        self._ids[id] = {"job_id": id} | known
        return self._ids[id]
