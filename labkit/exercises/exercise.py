"""What every exercise has: a task, a check, hints, a solution, and the mistakes that its check must recognise."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabError
from labkit.exercises.answer import Answer
from labkit.exercises.listing import listing
from labkit.exercises.record import record, was_attempted
from labkit.watchdog import watchdog
from labkit.widgets import Hints

PATIENCE = 2.0  # seconds of real time without a step, after which a learner's loop is called endless

_NOT_ORDINARY = (
    (inspect.iscoroutinefunction, "async"),
    (inspect.isgeneratorfunction, "yield"),
    (inspect.isasyncgenfunction, "async and yield"),
)

Attempt = tuple[Any, ...]  # what is handed to a check: one function, two, or a schedule


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give.

    Parameters
    ----------
    name: what is wrong with it: `no TTL`.
    attempt: what is handed to the check.
    hint: words that the check's message has for it, and for no other kind of mistake.
    """

    name: str
    attempt: Attempt
    hint: str


@dataclass(frozen=True)
class Code:
    """Source code that is shown, and can be copied."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class Exercise:
    """An exercise; a subclass says how an attempt is judged.

    Parameters
    ----------
    name: the name under which notebooks import it.
    task: what is to be written, in one or two sentences.
    names: what the learner calls each thing that is handed to the check.
    starter, solution: what stands in the notebook at first, and one way to do it; one for each name.
    hints: a nudge, a hint, and nearly the answer.
    mistakes: wrong answers, each with the words that its learner is told.
    """

    def __init__(
        self,
        name: str,
        task: str,
        *,
        names: Sequence[str],
        starter: Attempt,
        solution: Attempt,
        hints: tuple[str, str, str],
        mistakes: Sequence[Mistake] = (),
    ) -> None:
        self.name, self.task, self.names = name, task, tuple(names)
        self.levels, self.mistakes = hints, tuple(mistakes)
        self.starting_point, self.reference = starter, solution

    # ---- for learners

    def check(self, *attempt: Any) -> Answer:
        """Judge an attempt; never raises."""
        answer = self._examine(attempt)
        if not self._is_untouched(attempt):
            record(self.name, answer.passes)
        return answer

    def hint(self, level: int = 1) -> None:
        """Print a hint: 1 is a nudge, 2 a hint, 3 nearly the answer."""
        print(self.levels[min(max(level, 1), len(self.levels)) - 1])

    @property
    def hints(self) -> Hints:
        """The three hints, and the solution, each to be opened when it is needed."""
        solution = self.text_of(self.reference)
        return Hints(*self.levels, solution=solution, attempted=lambda: was_attempted(self.name))

    @property
    def solution(self) -> Code:
        """One way to do it, once an attempt was made."""
        if not was_attempted(self.name):
            return Code(f"First have a go: {self.called} with anything at all. Hints: {self.name}.hint(1) to hint(3).")
        return Code(self.text_of(self.reference))

    @property
    def starter(self) -> Code:
        """What stands in the notebook at first."""
        return Code(self.text_of(self.starting_point))

    @property
    def called(self) -> str:
        """The call that checks an attempt."""
        return f"{self.name}.check({', '.join(self.names)})"

    def __repr__(self) -> str:
        return f"{self.task}\nThen: {self.called}"

    # ---- for the notebooks' generator and the tests

    def text_of(self, attempt: Attempt) -> str:
        """An attempt as it stands in a notebook."""
        return "\n\n\n".join(self._text(one, name) for one, name in zip(attempt, self.names, strict=True))

    def cell(self, attempt: Attempt) -> str:
        """The text of a whole cell: an attempt, and the call that checks it."""
        return f"{self.text_of(attempt)}{self._gap}{self.called}"

    _gap = "\n\n\n"

    def _text(self, one: Any, name: str) -> str:
        return listing(one, name)

    # ---- judging

    def _is_untouched(self, attempt: Attempt) -> bool:
        """Whether this is what stood in the notebook at first: to run it is no attempt."""
        try:
            return self.text_of(attempt) == self.text_of(self.starting_point)
        except (OSError, TypeError, ValueError, SyntaxError):  # no source, or not as many: somebody tried something
            return False

    def judge(self, *attempt: Any) -> Answer:
        """Judge an attempt that has the right form; a subclass says how. May raise."""
        raise NotImplementedError

    def _examine(self, attempt: Attempt) -> Answer:
        refused = self._wrong_form(attempt)
        if refused:
            return Answer(False, refused)
        patience, watchdog.patience = watchdog.patience, min(watchdog.patience, PATIENCE)
        try:
            return self.judge(*attempt)
        except LabError as error:
            return Answer(False, f"This could not be searched: {error.sentence}")
        except Exception as error:  # a check never raises into the notebook
            return Answer(
                False, f"The check itself failed with {type(error).__name__}: {error}. This is a bug of the lab."
            )
        finally:
            watchdog.patience = patience

    def _wrong_form(self, attempt: Attempt) -> str:
        """What is wrong with the form of an attempt; empty when nothing is."""
        if len(attempt) != len(self.names):
            return f"Call it like this: {self.called}."
        for one, name, model in zip(attempt, self.names, self.reference, strict=True):
            if not callable(one):
                return f"Give the check your function {name} itself, not {one!r}. Call it like this: {self.called}."
            problem = arguments_problem(one, name, model)
            if problem:
                return problem
        return ""


def arguments_problem(function: Callable[..., Any], name: str, model: Callable[..., Any]) -> str:
    """What is wrong with a function's form, measured by the solution's; empty when nothing is."""
    for looks, word in _NOT_ORDINARY:
        if looks(function):
            return f"{name} is to be an ordinary function: with {word}, calling it runs none of its code."
    wanted = list(inspect.signature(model).parameters)
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        return f"{name} is called with {len(wanted)} arguments: {name}({', '.join(wanted)}). Yours takes others."
    except ValueError:
        pass  # something in C, which shows no signature: it will be seen when it is called
    return ""
