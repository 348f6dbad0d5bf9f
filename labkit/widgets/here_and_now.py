"""What is true of this machine and this moment only: shown while the kernel lives, and never stored."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as ipw

from labkit.widgets.shown import Shown

STORED = "Run this cell: what your machine has to show appears here. It differs each time, so it is not stored."


def _as_html(shown: Any) -> str:
    """What a notebook would show of something: its HTML, or its text."""
    bundle, as_html = (getattr(shown, name, None) for name in ("_repr_mimebundle_", "_repr_html_"))
    found = bundle().get("text/html") if callable(bundle) else as_html() if callable(as_html) else None
    return found or f"<pre>{html.escape(str(shown))}</pre>"


class HereAndNow(Shown):
    """Figures that differ from run to run, such as those of a run by real processes.

    Parameters
    ----------
    shown: what to show: a picture, or anything that has a text.
    """

    def __init__(self, shown: Any) -> None:
        super().__init__("here-and-now")
        self.shown = shown
        self.box = ipw.HTML(f'<div class="lk-picture">{_as_html(shown)}</div>')
        self.show(self.box)

    @property
    def text(self) -> str:
        """Where the figures would be; the same on every run."""
        return STORED
