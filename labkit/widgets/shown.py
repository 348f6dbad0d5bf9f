"""What every widget of the lab has in common: a view, a text for where no view can be, and errors that are seen.

Widgets write to values (`HTML.value`), never to captured output: that works in JupyterLab, on Binder, in VS Code and
in Colab. A handler's exception would land in no cell, so it is shown in the widget.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import ipywidgets as ipw
from IPython.display import display

from labkit.errors import LabError
from labkit.source import error_text
from labkit.widgets.css import APPEAR, CSS

VIEW = "application/vnd.jupyter.widget-view+json"
_numbers = count(1)  # of the widgets of this kernel
LIVE = "Run this cell in a live notebook to use it."


class Shown(ABC):
    """A widget of the lab.

    Parameters
    ----------
    name: what it is, in one word; the view's class is `lk-NAME`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = ipw.HTML()
        self.status.add_class("lk-status")
        self.view = ipw.VBox()
        self.view.add_class("lk")
        self.view.add_class(f"lk-{name}")
        self._number = next(_numbers)
        self.view.add_class(f"lk-view-{self._number}")
        self._said = ""

    def show(self, *parts: ipw.Widget) -> None:
        """Say what the view consists of, from top to bottom."""
        self.view.children = (ipw.HTML(f"<style>{CSS}</style>", layout={"display": "none"}), *parts)

    # ---- what is said

    @property
    def message(self) -> str:
        """What the widget said last, as plain text."""
        return self._said

    def say(self, text: str, kind: str = "calm") -> None:
        """Say something in the line that screen readers read aloud.

        Parameters
        ----------
        text: what to say.
        kind: `calm`, `good`, `bad` or `error`.
        """
        self._said = text
        role = "alert" if kind == "error" else "status"
        mark = {"good": "✓ ", "bad": "✗ ", "error": "✗ "}.get(kind, "")
        live = f'role="{role}" aria-live="{"assertive" if kind == "error" else "polite"}" aria-atomic="true"'
        self.status.value = f'<div class="lk-say lk-{kind}" {live}>{mark}{html.escape(text)}</div>'

    def hush(self) -> None:
        """Say nothing."""
        self._said = self.status.value = ""

    def guarded(self, action: Callable[[], object]) -> Callable[..., None]:
        """A handler that does something and shows, in the widget, what goes wrong."""

        def handle(*_: Any) -> None:
            try:
                action()
            except Exception as error:
                self.say(_complaint(error), "error")

        return handle

    # ---- where no view can be

    @property
    @abstractmethod
    def text(self) -> str:
        """The same as plain text, the same on every run."""

    @property
    def static_html(self) -> str:
        """The same as HTML that needs no kernel; the same on every run."""
        return static(self.text)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The text for where no view can be; where one is, it hides the HTML."""
        # Numbers are of one kernel: of two notebooks in one page, each hides its own only.
        here = f":is(.jp-OutputArea, body:not(:has(.jp-OutputArea))):has(.lk-view-{self._number})"
        rules = APPEAR + f"{here} .lk-instead-{self._number} {{ display: none; }}"
        html_twin = f'<div class="lk-instead lk-instead-{self._number}"><style>{rules}</style>{self.static_html}</div>'
        return {"text/plain": self.text, "text/html": html_twin}

    def _ipython_display_(self) -> None:
        """Show the view, and after it the text in an output of its own.

        In one output JupyterLab would prefer the view even when its kernel is gone, and show an error instead of it.
        """
        view = self.view._repr_mimebundle_() or {}
        display({VIEW: view[VIEW]}, raw=True)  # type: ignore[no-untyped-call]
        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]


def static(text: str, more: str = "") -> str:
    """Plain text as HTML that any viewer shows."""
    return f"<pre>{html.escape(text)}</pre>{more}"


def button(
    label: str, action: Callable[..., None] | None = None, *, tooltip: str = "", classes: Iterable[str] = ()
) -> ipw.Button:
    """A button as wide as its words.

    Parameters
    ----------
    label: what stands on it.
    action: what a click does; see `Shown.guarded`.
    tooltip: more words.
    classes: how it looks.
    """
    made = ipw.Button(description=label, tooltip=tooltip or label, layout={"width": "auto", "height": "auto"})
    made.add_class("lk-button")
    for name in classes:
        made.add_class(name)
    if action is not None:
        made.on_click(action)
    return made


def bar(buttons: Iterable[ipw.Widget]) -> ipw.HBox:
    """Widgets side by side, in as many rows as they need."""
    box = ipw.HBox(list(buttons))
    box.add_class("lk-bar")
    return box


def label(words: str) -> ipw.HTML:
    """Words before a row of buttons."""
    made = ipw.HTML(words)
    made.add_class("lk-label")
    return made


def _complaint(error: Exception) -> str:
    if isinstance(error, LabError):
        return error.sentence
    return error_text(error)
