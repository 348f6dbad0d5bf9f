"""A picture that carries its alternative text and its text twin wherever it is shown."""

from __future__ import annotations

import base64
import html
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from labkit.plots.style import DPI, WIDEST

SMALLEST = 0.7  # of its own width; a wider picture is scrolled through instead of being shrunk further


@dataclass(frozen=True)
class Picture:
    """A finished figure.

    Parameters
    ----------
    figure: the matplotlib figure, for whoever wants to change it.
    alt: what it shows, for those who do not see it.
    text: the same content as text.
    twin: the same content as HTML, to be shown below the picture; empty where there is none.
    """

    figure: Figure
    alt: str
    text: str
    twin: str = ""

    @matplotlib.rc_context(matplotlib.rcParamsDefault)
    def png(self) -> bytes:
        """The picture as PNG, the same bytes for the same matplotlib."""
        FigureCanvasAgg(self.figure)
        out = io.BytesIO()
        with warnings.catch_warnings():
            # A learner's word in another script is a box here; the text twin has it.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            self.figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
        return out.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the picture as a PNG file."""
        Path(path).write_bytes(self.png())

    @property
    def html(self) -> str:
        """The picture with its alternative text, and its twin below."""
        # JupyterLab sets no alternative text on PNG outputs, so the picture comes as HTML with its own.
        data = base64.b64encode(self.png()).decode()
        alt = html.escape(self.alt)
        width = self.figure.get_size_inches()[0]
        least = f";min-width:{SMALLEST * width * DPI:.0f}px" if width > WIDEST + 0.1 else ""
        return f'<img src="data:image/png;base64,{data}" alt="{alt}" style="max-width:100%{least}">{self.twin}'

    def _repr_html_(self) -> str:
        return self.html

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def as_twin(text: str) -> str:
    """A text twin as HTML, closed until it is asked for."""
    return f"<details><summary>The same as text</summary><pre>{html.escape(text)}</pre></details>"


def rounded(number: float) -> str:
    """A number to three figures, or whole when that has more: `0.0125`, `99.9`, `1,000`, `12,346`."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"
