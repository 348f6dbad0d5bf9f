"""Workers: their loop, their end, their second tries, and what a deploy does to them.

They need the standard library and nothing else: copy this folder into a project of your own and it works there. A queue
is whatever has `receive`, `delete`, and, where messages can be hidden for longer or given back, `change_visibility`. Of
those in `labkit.queues`, one has it:

    queue             prefetch    gives back, keeps hidden    who brings back what a worker had that died or failed
    PopQueue          1           no                          nobody: it is lost
    ReliableQueue     1           no                          itself with `recover`; `reap`, if it gives no heartbeat
    StreamQueue       1 to 100    no                          whoever calls `claim`, itself or another
    VisibilityQueue   1 to 10     yes                         the queue, after the visibility timeout

`tests/test_workers.py` has the scenarios.
"""

from .consumer import Consumer
from .deployment import DeployFailed, Deployment, Handle
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
    "DeployFailed",
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
