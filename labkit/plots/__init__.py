"""Pictures of scenarios, ladders, traces and timeouts; each carries alternative text and the same as text.

A module never has the name of its function, so that `from labkit.plots import heatmap` means one thing only.
"""

from labkit.plots.alerting import alert_timeline
from labkit.plots.deploy import deploy_timeline
from labkit.plots.figure import Picture
from labkit.plots.heat import heatmap
from labkit.plots.ladder import fix_ladder
from labkit.plots.progress import progress_graph
from labkit.plots.span_rows import waterfall
from labkit.plots.states import state_graph
from labkit.plots.tuner import timeout_tuner

__all__ = [
    "Picture",
    "alert_timeline",
    "deploy_timeline",
    "fix_ladder",
    "heatmap",
    "progress_graph",
    "state_graph",
    "timeout_tuner",
    "waterfall",
]
