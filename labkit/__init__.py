"""A lab for worker races: run ordinary redis-py code step by step, search every schedule, replay any of them."""

from labkit.errors import (
    LabError,
    Nondeterminism,
    PropertyError,
    ScenarioError,
    ScheduleError,
    Unsupported,
    WorkerStuck,
)
from labkit.execution import replay, run
from labkit.lab import Lab, Service
from labkit.processes.live_run import live
from labkit.processes.live_trace import LiveTrace
from labkit.processes.server import redis_server_or_none
from labkit.schedule import Choice, Schedule
from labkit.search.every_schedule import explore
from labkit.search.sampling import Sample, sample
from labkit.stores.mirror import RealServerDiffers
from labkit.trace import Event, Trace, Violation
from labkit.verdict import Bounds, Verdict

__version__ = "0.1.0"
__all__ = [
    "Bounds",
    "Choice",
    "Event",
    "Lab",
    "LabError",
    "LiveTrace",
    "Nondeterminism",
    "PropertyError",
    "RealServerDiffers",
    "Sample",
    "ScenarioError",
    "Schedule",
    "ScheduleError",
    "Service",
    "Trace",
    "Unsupported",
    "Verdict",
    "Violation",
    "WorkerStuck",
    "explore",
    "live",
    "redis_server_or_none",
    "replay",
    "run",
    "sample",
]
