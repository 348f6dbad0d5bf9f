"""Questions for the end of a chapter, with an explanation for every wrong answer."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import ipywidgets as ipw

from labkit.errors import LabError
from labkit.widgets.shown import LIVE, Shown, bar, button

Question = tuple[str, Mapping[str, str], str]


class Quiz(Shown):
    """Questions with answers to choose from.

    Parameters
    ----------
    questions: of each the question, its answers with an explanation each, and the answer that is right.

    Raises `ValueError` without a question, and on a right answer that cannot be chosen.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        if not questions:
            raise ValueError("a quiz has at least one question")
        super().__init__("quiz")
        for question, answers, right in questions:
            if not isinstance(answers, Mapping):
                raise ValueError(f"each answer to {question!r} needs its explanation: write {{answer: explanation}}")
            if right not in answers:
                raise ValueError(f"the right answer {right!r} is not among those of {question!r}: {list(answers)}")
        self.questions = list(questions)
        self.tries: list[list[str]] = [[] for _ in self.questions]
        self.buttons: list[dict[str, ipw.Button]] = []
        self.explained: list[ipw.HTML] = []
        parts: list[ipw.Widget] = []
        for place, (question, answers, _) in enumerate(self.questions):
            made = {
                answer: button(answer, self.guarded(lambda p=place, a=answer: self.answer(p + 1, a)))  # type: ignore[misc]
                for answer in answers
            }
            self.buttons.append(made)
            self.explained.append(ipw.HTML())
            head = ipw.HTML(f'<div class="lk-goal"><strong>{place + 1}.</strong> {html.escape(question)}</div>')
            parts += [head, bar(made.values()), self.explained[-1]]
        self.show(*parts, self.status)
        self.say(self._score())

    def answer(self, number: int, answer: str) -> None:
        """Answer a question, by its number from 1, as a click does; `LabError` when there is no such one."""
        place = number - 1
        if not 0 <= place < len(self.questions):
            raise LabError(f"there is no question {number}; there are {len(self.questions)}")
        _, answers, right = self.questions[place]
        if answer not in answers:
            raise LabError(f"{answer!r} is no answer to question {number}; there are {', '.join(answers)}")
        self.tries[place].append(answer)
        is_right = answer == right
        for other, made in self.buttons[place].items():
            tried = other in self.tries[place]
            made.description = f"{'✓' if other == right else '✗'} {other}" if tried else other
        kind, mark, more = ("good", "✓ Right.", "") if is_right else ("bad", "✗ No.", " Try another answer.")
        words = f"{mark} {answers[answer]}{more}".replace("  ", " ")
        self.explained[place].value = f'<div class="lk-say lk-{kind}" role="status">{html.escape(words)}</div>'
        self.say(self._score())

    def _score(self) -> str:
        solved = sum(right in tries for tries, (_, _, right) in zip(self.tries, self.questions, strict=True))
        first = sum(tries[:1] == [right] for tries, (_, _, right) in zip(self.tries, self.questions, strict=True))
        if not solved:
            return "Choose an answer; every wrong one is explained."
        return f"{solved} of {len(self.questions)} answered, {first} at the first try."

    @property
    def text(self) -> str:
        """The questions and their answers as plain text, without saying which is right."""
        lines = [f"Quiz. {LIVE}"]
        for place, (question, answers, _) in enumerate(self.questions, 1):
            lines += [f"{place}. {question}", *(f"   - {answer}" for answer in answers)]
        return "\n".join(lines)

    @property
    def static_html(self) -> str:
        """The questions; each with its answers and explanations, closed until they are asked for."""
        parts = []
        for place, (question, answers, right) in enumerate(self.questions, 1):
            listed = "".join(
                f"<li>{'✓' if answer == right else '✗'} {html.escape(answer)}: {html.escape(why)}</li>"
                for answer, why in answers.items()
            )
            offered = "".join(f"<li>{html.escape(answer)}</li>" for answer in answers)
            parts.append(
                f"<p><strong>{place}.</strong> {html.escape(question)}</p><ul>{offered}</ul>"
                f"<details><summary>Answer</summary><ul>{listed}</ul></details>"
            )
        return "".join(parts)
