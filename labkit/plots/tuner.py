"""The visibility timeout tuner: what a timeout costs in duplicates, and what it costs in recovery."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.plots.canvas import canvas, write
from labkit.plots.figure import Picture, as_twin, rounded
from labkit.plots.style import BLUE, CHARACTER, FAINT, FONT_SIZE, INK, MONOSPACE, PAPER, QUIET, VERMILLION
from labkit.workers import Tuning, log_normal, percentile, tune

WIDTH, PANEL, GAP, TOP, LEFT, RIGHT, ROW = 8.4, 2.1, 0.75, 0.95, 0.95, 0.45, 0.2  # inches
WITHOUT = ("without heartbeat", BLUE, "o", "-")
WITH = ("with heartbeat", VERMILLION, "s", "--")
TENS = (0.001, 0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)  # seconds
MOST_TICKS = 10  # with more, only each power of ten is named
FAR_RIGHT = 0.8  # of a panel: from there on a label stands to the left of its line
FEW = 1.0  # duplicates in 1,000 jobs


def timeout_tuner(
    durations: Sequence[float] | None = None,
    *,
    p50: float | None = None,
    p95: float | None = None,
    timeouts: Iterable[float] | None = None,
    paused: float = 0.01,
    pause: float = 10,
    chosen: float | None = None,
) -> Picture:
    """Draw duplicates in 1,000 jobs and the recovery after a crash, against the visibility timeout.

    Parameters
    ----------
    durations: seconds that jobs took; or give p50 and p95, for a log-normal distribution of 1,000 jobs.
    p50, p95: the median and the 95th percentile in seconds.
    timeouts, paused, pause: as for `labkit.workers.tune`, which has the numbers and what they assume.
    chosen: a timeout to be marked.

    Raises `ValueError` when neither the durations nor both percentiles are given, or both are.
    """
    if durations is None:
        if p50 is None or p95 is None:
            raise ValueError("give durations, or both p50 and p95")
        durations = log_normal(p50, p95)
    elif p50 is not None or p95 is not None:
        raise ValueError("give durations, or p50 and p95, and not both")
    rows = sorted(tune(durations, timeouts, paused=paused, pause=pause), key=lambda row: row.timeout)
    marked = tune(durations, [chosen], paused=paused, pause=pause)[0] if chosen is not None else None
    p50 = percentile(durations, 0.5) if p50 is None else p50
    p95 = percentile(durations, 0.95) if p95 is None else p95
    standing = f"{1_000 * paused:g} in 1,000 jobs stand still once, for {_seconds(pause)}."
    return draw(rows, p50, p95, [standing, *_told(rows, marked)], marked)


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def draw(rows: Sequence[Tuning], p50: float, p95: float, told: Sequence[str], marked: Tuning | None = None) -> Picture:
    """Draw numbers that `tune` gave; `told` is written below."""
    lines = [line for text in told for line in textwrap.wrap(text, int((WIDTH - 0.4) / CHARACTER))]
    height = TOP + 2 * PANEL + GAP + 0.75 + ROW * len(lines)
    figure, page = canvas(WIDTH, height)
    for place, (name, color, marker, dashes) in enumerate((WITHOUT, WITH)):
        x = LEFT + 2.4 * place
        page.plot([x, x + 0.4], [0.25] * 2, color=color, linestyle=dashes, marker=marker, markeredgecolor=INK)
        write(page, x + 0.5, 0.25, name)
    tops = (TOP, TOP + PANEL + GAP)
    duplicates, recovery = (_panel(figure, top, height) for top in tops)
    xs = [row.timeout for row in rows]
    _curves(duplicates, xs, [r.duplicates for r in rows], [r.duplicates_with_heartbeat for r in rows])
    _curves(recovery, xs, [r.recovery for r in rows], [r.recovery_with_heartbeat for r in rows])
    duplicates.set_yscale("symlog", linthresh=1, linscale=0.4)
    duplicates.set_ylim(0, max(10, 1.5 * max(row.duplicates for row in rows)))
    duplicates.set_yticks(
        ticks := [tick for tick in (0, 1, 10, 100, 1_000, 10_000) if tick <= duplicates.get_ylim()[1]]
    )
    duplicates.set_yticklabels([f"{tick:,}" for tick in ticks])
    _finish(duplicates, xs, "duplicates in 1,000 jobs")
    _finish(recovery, xs, "seconds until another worker has the job of one that crashed, on average")
    recovery.set_ylim(bottom=0)
    _quantiles(duplicates, recovery, p50, p95, marked)
    write(page, WIDTH / 2, tops[1] + PANEL + 0.4, "visibility timeout", ha="center")
    for place, line in enumerate(lines):
        write(page, 0.2, tops[1] + PANEL + 0.7 + ROW * place, line, color=QUIET)
    text = _text(rows, p50, p95, told)
    alt = (
        f"Visibility timeout from {_seconds(xs[0])} to {_seconds(xs[-1])} against duplicates and recovery. Half of the "
        f"jobs take up to {_seconds(p50)}, 95 % up to {_seconds(p95)}. " + " ".join(told)
    )
    return Picture(figure, alt, text, as_twin(text))


def _panel(figure: Figure, top: float, height: float) -> Axes:
    return figure.add_axes((LEFT / WIDTH, 1 - (top + PANEL) / height, 1 - (LEFT + RIGHT) / WIDTH, PANEL / height))


def _curves(axes: Axes, xs: list[float], without: list[float], kept: list[float]) -> None:
    for values, (_, color, marker, dashes) in ((without, WITHOUT), (kept, WITH)):
        axes.plot(
            xs, values, color=color, marker=marker, linestyle=dashes, markersize=4, markeredgecolor=INK, clip_on=False
        )


def _finish(axes: Axes, xs: list[float], title: str) -> None:
    axes.set_facecolor(PAPER)
    axes.set_xscale("log")
    axes.set_xlim(xs[0] * 0.95, xs[-1] * 1.05)
    ticks = _ticks(*axes.get_xlim())
    axes.set_xticks(ticks, [_seconds(tick) for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.grid(color=FAINT, linewidth=0.5)
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        label.set_fontfamily(MONOSPACE)
        label.set_fontsize(FONT_SIZE)
    axes.text(0, 1.14, title, transform=axes.transAxes, fontfamily=MONOSPACE, fontsize=FONT_SIZE, color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers of seconds between two; the middle where there is none."""
    ticks = [tens * ones for tens in TENS for ones in (1, 2, 5) if low <= tens * ones <= high]
    if len(ticks) > MOST_TICKS:
        ticks = [tens for tens in TENS if low <= tens <= high]
    return ticks or [float(f"{(low * high) ** 0.5:.3g}")]


def _quantiles(duplicates: Axes, recovery: Axes, p50: float, p95: float, marked: Tuning | None) -> None:
    """Lines at the median, at the 95th percentile, and at a timeout that was chosen."""
    low, high = duplicates.get_xlim()
    labels = [(p50, "p50 ", "right", (0, (1, 2))), (p95, " p95", "left", (0, (6, 2)))]
    for x, name, side, dashes in labels:
        for axes in (duplicates, recovery):
            axes.axvline(x, color=INK, linewidth=1.2, linestyle=dashes)
        if low <= x <= high:
            _beside(duplicates, x, name, side)
    if marked is not None and low <= marked.timeout <= high:
        for axes in (duplicates, recovery):
            axes.axvline(marked.timeout, color=INK, linewidth=2)
        is_right = marked.timeout > low ** (1 - FAR_RIGHT) * high**FAR_RIGHT
        name = f"{_seconds(marked.timeout)} " if is_right else f" {_seconds(marked.timeout)}"
        _beside(recovery, marked.timeout, name, "right" if is_right else "left")


def _beside(axes: Axes, x: float, text: str, side: str) -> None:
    """A label above a line."""
    style = {"fontfamily": MONOSPACE, "fontsize": FONT_SIZE, "fontweight": "bold", "color": INK}
    axes.text(x, 1.03, text, ha=side, transform=axes.get_xaxis_transform(), **style)  # type: ignore[arg-type]


def _told(rows: Sequence[Tuning], marked: Tuning | None) -> list[str]:
    """What the numbers say."""
    told = []
    for name, number in (("Without", 0), ("With", 1)):
        few = [row for row in rows if (row.duplicates, row.duplicates_with_heartbeat)[number] <= FEW]
        if few:
            row = few[0]
            waits = (row.recovery, row.recovery_with_heartbeat)[number]
            told.append(
                f"{name} a heartbeat, {_seconds(row.timeout)} is the shortest timeout here with at most {FEW:g} "
                f"duplicate in 1,000 jobs; a crash then delays a job by {_seconds(waits)} on average."
            )
        else:
            told.append(f"{name} a heartbeat, every timeout here has more than {FEW:g} duplicate in 1,000 jobs.")
    if marked is not None:
        told.append(
            f"{_seconds(marked.timeout)}: without a heartbeat {rounded(marked.duplicates)} duplicates in 1,000 jobs, "
            f"and {_seconds(marked.recovery)} until the job of a crashed worker goes on; with one "
            f"{rounded(marked.duplicates_with_heartbeat)}, and {_seconds(marked.recovery_with_heartbeat)}."
        )
    return told


def _text(rows: Sequence[Tuning], p50: float, p95: float, told: Sequence[str]) -> str:
    lines = ["timeout  duplicates in 1,000 jobs     seconds until a crashed worker's job goes on"]
    lines += ["         without    with heartbeat    without    with heartbeat"]
    for row in rows:
        lines.append(
            f"{_seconds(row.timeout):>7}  {row.duplicates:>7,.1f}    {row.duplicates_with_heartbeat:>14,.1f}    "
            f"{row.recovery:>7,.1f}    {row.recovery_with_heartbeat:>14,.1f}"
        )
    return "\n".join([*lines, "", f"p50 {_seconds(p50)}, p95 {_seconds(p95)}", *told])


def _seconds(value: float) -> str:
    return f"{rounded(value)} s"
