"""Predictions: said before a cell is run, kept, and laid beside what happened."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import ipywidgets as ipw
from IPython.display import display

from labkit.errors import LabError
from labkit.widgets.shown import LIVE, Shown, bar, button, static

Said = float | str
UNSAID = "no prediction"
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # a comma before three figures; in 2,5 it would be a decimal point
_kept: dict[str, Prediction] = {}  # by question, in the order in which they were asked: those of this kernel


class NoPrediction(LabError):
    """What was typed is no prediction of the kind that was asked for."""


class Prediction(Shown):
    """A question to answer before you look.

    The answer is kept for `compare`, in a later cell, and for `recap`. A question that is asked again, because its cell
    is run again, still has its answer; an answer that was compared stays as it is.

    Parameters
    ----------
    question: what will happen.
    unit: of a number, such as `of 100`.
    choices: what can be answered, if it is no number.
    text: whether the answer is free text.

    Raises `ValueError` without a question, and on choices that leave no choice.
    """

    def __init__(self, question: str, unit: str = "", choices: Sequence[str] | None = None, text: bool = False) -> None:
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"a prediction asks a question, in words, not {question!r}")
        texts = [] if isinstance(choices, str) else [each for each in choices or () if isinstance(each, str)]
        if choices is not None and (len(texts) < len(choices) or len(set(texts)) < 2):
            raise ValueError(f"choices are two texts or more, not {choices!r}")
        super().__init__("prediction")
        self.question, self.unit, self.choices, self.is_text = question, unit, list(choices or ()), text
        before = _kept.get(question)
        self.said: Said | None = before.said if before is not None else None
        self.actual: Any = before.actual if before is not None else None
        self.is_seen: bool = before is not None and before.is_seen
        _kept[question] = self
        self.box = ipw.Text(placeholder="your answer" if text else "a number")
        self.box.add_class("lk-answer" if text else "lk-short")
        self._record = button("record my prediction", self.guarded(self._take_box))
        self._picks = [button(choice, self.guarded(lambda c=choice: self._keep(c))) for choice in self.choices]  # type: ignore[misc]
        answer = bar(self._picks or [self.box, *([ipw.HTML(html.escape(unit))] if unit else []), self._record])
        self.show(
            ipw.HTML(f'<div class="lk-goal"><strong>Predict.</strong> {html.escape(question)}</div>'),
            answer,
            self.status,
        )
        self._refresh()

    @property
    def is_settled(self) -> bool:
        """Whether it was compared, and stays as it is."""
        return self.is_seen and self.said is not None

    @property
    def value(self) -> Said | None:
        """What was predicted; None while nothing was."""
        return self.said

    def answer(self, said: Said) -> None:
        """Answer, as the widget does; `NoPrediction` when it is not of the kind that was asked for."""
        self._keep(self._read(str(said)))

    def _take_box(self) -> None:
        self._keep(self._read(self.box.value))

    def _read(self, words: str) -> Said:
        words = words.strip()
        if not words:
            raise NoPrediction("Write your prediction into the box first")
        if self.choices:
            if words not in self.choices:
                raise NoPrediction(f"{words!r} is not among the choices: {', '.join(self.choices)}")
            return words
        if self.is_text:
            return words
        try:
            number = float(_THOUSANDS.sub("", words).removesuffix("%"))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise NoPrediction(f"{words!r} is no number; write one such as 10, 2.5 or 1,000")
        return int(number) if number.is_integer() else number

    def _keep(self, said: Said) -> None:
        if self.is_settled:
            raise NoPrediction(f"you have seen what happened; your prediction stays: {_shown(self.said)}")
        self.said = said
        self._refresh()

    def _refresh(self) -> None:
        for choice, pick in zip(self.choices, self._picks, strict=True):
            picked = choice == self.said
            pick.description = f"✓ {choice}" if picked else choice
            (pick.add_class if picked else pick.remove_class)("lk-picked")
        for control in (*self._picks, self.box, self._record):
            control.disabled = self.is_settled
        if self.is_settled:
            self.say(self._compared())
        elif self.said is None:
            self.say("No prediction yet. Say what you expect, then run the next cells.")
        else:
            self.say(f"Your prediction is kept: {self._with_unit(self.said)}. Run the next cells to see.", "good")

    # ---- afterwards

    def compare(self, actual: Any) -> None:
        """Show what was predicted beside what happened.

        Parameters
        ----------
        actual: what happened: a number, or text.
        """
        self.actual, self.is_seen = actual, True
        self._refresh()
        display(Comparison(self))  # type: ignore[no-untyped-call]

    @property
    def is_right(self) -> bool:
        """Whether what was predicted is what happened."""
        if self.said is None:
            return False
        return self.said == self.actual or _shown(self.said).casefold() == _shown(self.actual).casefold()

    def _compared(self) -> str:
        happened = self._with_unit(self.actual)
        if self.said is None:
            return f"you made no prediction; it was {happened}"
        return f"you said {_shown(self.said)}, it was {happened}"

    def _with_unit(self, value: Any) -> str:
        return f"{_shown(value)} {self.unit}".rstrip()

    @property
    def text(self) -> str:
        """The question as plain text."""
        lines = [f"Predict. {self.question}", *(f"   - {choice}" for choice in self.choices)]
        lines.append(LIVE if self.said is None else f"You said {self._with_unit(self.said)}.")
        return "\n".join(lines)


class Comparison:
    """What was predicted, beside what happened.

    Parameters
    ----------
    prediction: the prediction, compared.
    """

    def __init__(self, prediction: Prediction) -> None:
        self._words = prediction._compared()
        self._is_right = prediction.is_right

    def __repr__(self) -> str:
        return self._words

    def _repr_html_(self) -> str:
        mark = "✓ " if self._is_right else ""
        return f"<p><strong>{mark}{html.escape(self._words)}</strong></p>"


class Row(NamedTuple):
    """A prediction that was compared: the question, what was said (None for nothing), and what happened."""

    question: str
    said: str | None
    did: str
    is_right: bool

    @property
    def mark(self) -> str:
        """Whether it came true, in a word."""
        return "" if self.said is None else "✓ yes" if self.is_right else "no"


class Recap:
    """Every prediction that was compared, as a table."""

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        self._rows = [
            Row(
                each.question,
                None if each.said is None else _shown(each.said),
                each._with_unit(each.actual),
                each.is_right,
            )
            for each in predictions
        ]

    def __repr__(self) -> str:
        if not self._rows:
            return "No prediction has been compared yet."
        said = [UNSAID if row.said is None else f"you said: {row.said}" for row in self._rows]
        lines = [f"{row.question}\n  {words}; it did: {row.did}" for row, words in zip(self._rows, said, strict=True)]
        return "\n".join([*lines, self._told])

    @property
    def _told(self) -> str:
        made, right = sum(row.said is not None for row in self._rows), sum(row.is_right for row in self._rows)
        if not made:
            return "You predicted nothing. Say first what you expect: to be wrong is what teaches."
        return f"You predicted {made} of {len(self._rows)}, and {right} came true."

    def _repr_html_(self) -> str:
        if not self._rows:
            return static(repr(self))
        head = "".join(_cell(name, "th") for name in ("question", "you said", "it did", "as you said"))
        lines = "".join(
            "<tr>" + "".join(map(_cell, (row.question, row.said or f"({UNSAID})", row.did, row.mark))) + "</tr>"
            for row in self._rows
        )
        return f"<table><tr>{head}</tr>{lines}</table><p>{html.escape(self._told)}</p>"


def _cell(text: str, tag: str = "td") -> str:
    return f'<{tag} style="text-align:left">{html.escape(text)}</{tag}>'


def recap() -> None:
    """Show all predictions of this notebook that were compared: you said, it did."""
    display(Recap([each for each in _kept.values() if each.is_seen]))  # type: ignore[no-untyped-call]


def forget() -> None:
    """Forget all predictions, as a new kernel does."""
    _kept.clear()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.10g}" if isinstance(value, float) else str(value)
