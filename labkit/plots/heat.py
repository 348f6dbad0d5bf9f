"""The heatmap of bad schedules: where must one worker be interrupted by the other, for how long, for it to go wrong?"""

from __future__ import annotations

import matplotlib
from matplotlib.colors import to_hex, to_rgb

from labkit import Sample, sample
from labkit.lab import Scenario
from labkit.plots.canvas import write
from labkit.plots.figure import Picture, as_twin
from labkit.plots.grid import SMALL_CELL, Entry, Grid, as_letters, sentence
from labkit.plots.style import ABSENT, BLACK, DARK_ALARM, PAPER, Shade, luminance
from labkit.search.chances import SwitchGrid, switch_grid

RUNS_IN_STAGING = 10
DARK = 0.179  # a luminance up to which white letters have more contrast than black ones


def heatmap(
    scenario: Scenario,
    property: str | None = None,
    *,
    clock: bool = False,
    pauses: int | None = None,
    executions: int = 1_000,
    seed: int = 0,
) -> Picture:
    """Draw the share of bad schedules for each pair of switch points of two workers.

    A square stands for the schedules in which the first worker takes so many steps, then the second so many, and then
    chance decides, each enabled choice being as likely as any other. The shares are exact; beside them stands what
    `sample` says of schedules that are drawn from the start.

    Parameters
    ----------
    scenario: builds the world; it has two workers.
    property: the one that is looked at; if None, the one that `sample` sees violated most often, or the first.
    clock: whether time passes, up to the next deadline, between the two: the first worker is paused.
    pauses: as for `explore`; if None, one with `clock`, and none without.
    executions: how many schedules `sample` draws.
    seed: what everything random depends on.

    Raises `ScenarioError` when there are not two workers, no property, or too many steps for a picture.
    """
    pauses = int(clock) if pauses is None else pauses
    seen = sample(scenario, executions, pauses=pauses, seed=seed)
    if property is None and seen.hits:
        property = max(seen.hits, key=seen.hits.__getitem__)
    return draw(switch_grid(scenario, property, clock=clock, pauses=pauses, seed=seed), seen, clock)


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def draw(switches: SwitchGrid, seen: Sample, clock: bool = False) -> Picture:
    """Draw shares that have been added up, beside those that were sampled."""
    told = _told(switches, seen, clock)
    samples = [Entry(f"{share:.0%}", shade_of(share)) for share in (0.0, 0.5, 1.0)]
    grid = Grid(switches.workers, switches.steps, [*samples, *_absent(switches), *map(sentence, told)])
    figure, axes = grid.draw()
    letters = {}
    for point in grid.points():
        share = switches.chances.get(point)
        letters[point] = f"{share * 100:.0f}" if share is not None else "-"
        grid.fill(axes, point, ABSENT if share is None else shade_of(share))
        if share is not None:
            small = grid.cell == SMALL_CELL
            write(
                axes,
                *grid.middle(point),
                letters[point],
                ha="center",
                color=shade_of(share).ink,
                fontsize=7 if small else 8.5,
            )
    text = "\n".join(
        [*as_letters(grid, letters), "", *told, *(["- no schedule does that"] if "-" in letters.values() else [])]
    )
    return Picture(figure, _alt(switches, told), text, as_twin(text))


def shade_of(share: float) -> Shade:
    """The darker, the worse: from white to the dark alarm, evenly; figures on it are light where it is dark."""
    red, green, blue = (
        one + (other - one) * share for one, other in zip(to_rgb(PAPER), to_rgb(DARK_ALARM), strict=True)
    )
    face = to_hex((red, green, blue))
    return Shade(face, "", face, "", BLACK if luminance(face) > DARK else PAPER)


def _absent(switches: SwitchGrid) -> list[Entry]:
    columns, rows = map(len, switches.steps)
    return [Entry("no schedule does that", ABSENT)] if len(switches.chances) < (columns + 1) * (rows + 1) else []


def _told(switches: SwitchGrid, seen: Sample, clock: bool) -> list[str]:
    """What the picture says, in sentences."""
    one, other = switches.workers
    name = switches.property
    between = f"is paused until the next deadline while {other} takes" if clock else f"then {other} takes"
    low, high = seen.interval(name)
    missed = (1 - switches.overall) ** RUNS_IN_STAGING
    quiet = switches.chances.get((len(switches.steps[0]), 0))
    sentences = [
        f"A square: {one} takes so many steps to the right, {between} so many upwards, then chance decides.",
        f"Its figure: of 100 such schedules, so many violate {name!r}.",
        f"Chance alone, exactly: {switches.overall:.1%}.",
        f"sample, {seen.executions:,} executions: {seen.rate(name):.1%} (95 % interval {low:.1%} to {high:.1%}).",
        f"How lucky was staging? The chance that {RUNS_IN_STAGING} runs miss it: {missed:.1%}.",
    ]
    if quiet is not None and not clock:
        sentences.append(f"One after the other, {one} first: {quiet:.0%}.")
    return sentences


def _alt(switches: SwitchGrid, told: list[str]) -> str:
    worst = max(switches.chances.values(), default=0.0)
    at = [point for point, share in switches.chances.items() if share == worst]
    one, other = switches.workers
    where = f"The worst share, {worst:.0%}, is in {len(at)} of {len(switches.chances)} squares"
    if at and worst:
        where += f", first after {at[0][0]} steps of {one} and {at[0][1]} of {other}"
    return f"Heatmap of bad schedules of {one} and {other}. {where}. " + " ".join(told)
