"""Exercise: write the schedule in which Celery, with acks_late, acknowledges a task that nobody has done."""

from __future__ import annotations

from labkit.cases import CASES, Case
from labkit.exercises.exercise import Mistake
from labkit.exercises.write_schedule import WriteSchedule

_REPORT = CASES["P24"]
assert isinstance(_REPORT, Case)

lose_the_task = WriteSchedule(
    "lose_the_task",
    "Write an order, with one crash, after which the task is acknowledged and its effect never happens.",
    names=["my_schedule"],
    starter=("parent parent child-1 child-1",),
    solution=("parent parent child-1 crash:child-1 clock parent parent",),
    scenario=_REPORT.broken,
    breaks="the task takes effect in the end",
    missed="The task is not lost in this order. Where was it when the child died, and was its effect out already?",
    praise="The parent acknowledged what its child never did. That is what acks_late does unless you set "
    "task_reject_on_worker_lost.",
    crashes=1,
    hints=(
        "The parent hands the task to a child, and waits for its answer. When is the child the only one that has it?",
        "Kill the child after it has taken the task from the pipe, and before its effect.",
        "Two steps of the parent, one of child-1, crash:child-1; then time passes, and the parent goes on, twice.",
    ),
    mistakes=[
        Mistake("it ends too early", ("parent parent child-1 crash:child-1",), "add steps"),
        Mistake("the parent is killed", ("parent crash:parent",), "cannot be"),
        Mistake("two crashes", ("parent crash:child-1 crash:child-2",), "at most 1 may happen"),
        Mistake(
            "killed after the effect",
            ("parent parent child-1 child-1 crash:child-1 clock parent parent",),
            "is not lost in this order",
        ),
    ],
)
