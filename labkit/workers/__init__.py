"""Workers: their loop, their end, their second tries, and what a deploy does to them.

They need the standard library and nothing else: copy this folder into a project of your own and it works there. A queue
is whatever has `receive`, `delete`, and, where messages can be hidden for longer or given back, `change_visibility`;
those of `labkit.queues` have. `tests/test_workers.py` has the scenarios.
"""

from .consumer import Consumer
from .deployment import Deployment, Handle
from .heartbeat import Heartbeat, HeartbeatLost
from .job import Job
from .log import Emit, log_event
from .process_handle import ProcessHandle
from .retry_policy import Busy, Permanent, RetryPolicy
from .timings import Timings
from .tuning import Tuning, log_normal, percentile, tune
from .worker import Worker

__all__ = [
    "Busy",
    "Consumer",
    "Deployment",
    "Emit",
    "Handle",
    "Heartbeat",
    "HeartbeatLost",
    "Job",
    "Permanent",
    "ProcessHandle",
    "RetryPolicy",
    "Timings",
    "Tuning",
    "Worker",
    "log_event",
    "log_normal",
    "percentile",
    "tune",
]
