"""What is true of this machine and this moment only: shown while the kernel lives, and never stored."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as ipw

from labkit.widgets.shown import Shown

STORED = "Run this cell: what your machine has to show appears here. It differs each time, so it is not stored."


class HereAndNow(Shown):
    """Figures that differ from run to run, such as those of a run by real processes.

    Parameters
    ----------
    shown: what to show: a picture, or anything that has a text.
    """

    def __init__(self, shown: Any) -> None:
        super().__init__("here-and-now")
        self.shown = shown
        as_html = getattr(shown, "_repr_html_", None)
        words = as_html() if callable(as_html) else f"<pre>{html.escape(str(shown))}</pre>"
        self.box = ipw.HTML(f'<div class="lk-picture">{words}</div>')
        self.show(self.box)

    @property
    def text(self) -> str:
        """Where the figures would be; the same on every run."""
        return STORED
