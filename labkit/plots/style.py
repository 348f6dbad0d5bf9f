"""One look for every picture: colours that colour-blind people tell apart, and never colour alone."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.colors import to_rgb

# The palette of Okabe and Ito, "Color Universal Design" (2008).
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
INK, QUIET, FAINT, PAPER = "#222222", "#555555", "#C8C8C8", "#FFFFFF"
ALARM, DARK_ALARM, ALARM_PAPER = VERMILLION, "#8A3500", "#FDEBDD"

MONOSPACE = "DejaVu Sans Mono"
FONT_SIZE = 8.5  # points
CHARACTER = FONT_SIZE * 0.602 / 72  # the width of one character, in inches
DPI = 110
WIDEST = 9.6  # inches: as wide as a notebook cell; wider pictures would be shrunk until nobody can read them


class Look(NamedTuple):
    """How a worker is told apart: by colour, and by marker, hatch or the dashes of a line."""

    color: str
    marker: str
    hatch: str
    dashes: str


class Shade(NamedTuple):
    """How one kind of area is told from others, in grey too: by face, hatch (in a colour) and symbol (in another)."""

    face: str
    hatch: str
    line: str
    symbol: str
    ink: str


SAFE = Shade("#D9EDF8", "", "#D9EDF8", "✓", INK)
CALM = Shade(PAPER, "", PAPER, "", INK)
UNSURE = Shade(ALARM_PAPER, "//", ORANGE, "?", INK)
WORSE = Shade(ORANGE, "", ORANGE, "!", INK)
WORST = Shade(DARK_ALARM, "", DARK_ALARM, "✗", PAPER)
ABSENT = Shade(FAINT, "...", QUIET, "", INK)

_LOOKS = (
    Look(BLUE, "o", "///", "solid"),
    Look(ORANGE, "s", "\\\\\\", "long dashes"),
    Look(GREEN, "^", "...", "dots"),
    Look(PURPLE, "D", "xxx", "dash and dot"),
    Look(SKY, "v", "---", "short dashes"),
    Look(YELLOW, "P", "+++", "dash and two dots"),
    Look(BLACK, "*", "ooo", "wide dots"),
)

# Dashes as matplotlib has them: where they begin, then lengths of dashes and gaps.
DASHES: dict[str, tuple[int, tuple[float, ...]]] = {
    "solid": (0, ()),
    "long dashes": (0, (6, 2)),
    "dots": (0, (1, 1.2)),
    "dash and dot": (0, (5, 1.5, 1, 1.5)),
    "short dashes": (0, (2.5, 1.5)),
    "dash and two dots": (0, (5, 1.5, 1, 1.5, 1, 1.5)),
    "wide dots": (0, (1, 3)),
}


def luminance(color: str) -> float:
    """How light a colour is, from 0 to 1; what is left of it in grey.

    Source: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
    """
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def look(index: int) -> Look:
    """The look of a scenario's worker, by its place in the scenario."""
    return _LOOKS[index % len(_LOOKS)]
