"""One look for every picture: colours that colour-blind people tell apart, and never colour alone."""

from __future__ import annotations

from typing import NamedTuple

# The palette of Okabe and Ito, "Color Universal Design" (2008).
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
INK, QUIET, FAINT, PAPER = "#222222", "#555555", "#C8C8C8", "#FFFFFF"
ALARM, DARK_ALARM, ALARM_PAPER = VERMILLION, "#8A3500", "#FDEBDD"

MONOSPACE = "DejaVu Sans Mono"
FONT_SIZE = 8.5  # points
CHARACTER = FONT_SIZE * 0.602 / 72  # the width of one character, in inches
DPI = 110


class Look(NamedTuple):
    """How a worker is told apart: by colour, marker and hatch together."""

    color: str
    marker: str
    hatch: str


_LOOKS = (
    Look(BLUE, "o", "///"),
    Look(ORANGE, "s", "\\\\\\"),
    Look(GREEN, "^", "..."),
    Look(PURPLE, "D", "xxx"),
    Look(SKY, "v", "---"),
    Look(YELLOW, "P", "+++"),
    Look(BLACK, "*", "ooo"),
)


def look(index: int) -> Look:
    """The look of a scenario's worker, by its place in the scenario."""
    return _LOOKS[index % len(_LOOKS)]
