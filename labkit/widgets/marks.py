"""How workers are told apart in widgets: the marker and the colour that they have in pictures."""

from __future__ import annotations

import ipywidgets as ipw

from labkit.plots.style import INK, PAPER, look, luminance
from labkit.schedule import Choice

_GLYPHS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "*": "★"}


def glyph(place: int) -> str:
    """A worker's marker as a character."""
    return _GLYPHS[look(place).marker]


def color(place: int) -> str:
    """A worker's colour."""
    return look(place).color


def dye(button: ipw.Button, place: int) -> None:
    """Give a button a worker's colour, with words on it that can be read."""
    ground = color(place)
    # The contrast of WCAG 2.2 with white is larger than with ink below this luminance.
    button.style.button_color, button.style.text_color = ground, PAPER if luminance(ground) < 0.18 else INK


def label_of(choice: Choice, names: list[str]) -> str:
    """What stands on the button of a choice."""
    if choice.kind in ("clock", "failover"):
        return {"clock": "clock: time passes", "failover": "failover to the replica"}[choice.kind]
    who = f"{glyph(names.index(choice.process or ''))} {choice.worker}"
    words = {"step": who, "crash": f"✕ crash {who}", "lose": f"lose the reply to {who}", "signal": f"SIGTERM to {who}"}
    return words.get(choice.kind, f"the clock of {who} jumps")


def meaning_of(choice: Choice) -> str:
    """What a choice means, in a sentence."""
    name = choice.worker
    return {
        "step": f"{name} takes its next step.",
        "clock": "Time passes to the next deadline: a sleep ends, a key expires, a message becomes visible.",
        "crash": f"{name} is killed where it stands, as kill -9 does: no finally, no clean-up.",
        "lose": f"What {name} asks next takes effect, and the reply never arrives.",
        "signal": f"{name} gets SIGTERM.",
        "jump": f"The wall clock of {name} jumps.",
        "failover": "A replica takes over from Redis, without the last writes.",
    }[choice.kind]
