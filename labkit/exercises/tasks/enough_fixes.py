"""Exercise: the smallest set of fixes with which the status race holds."""

from __future__ import annotations

from labkit.exercises.choose_fixes import ChooseFixes
from labkit.exercises.exercise import Mistake
from labkit.incidents import STATUS_RACE

ALL = tuple(fix.name for fix in STATUS_RACE.fixes)

enough_fixes = ChooseFixes(
    "enough_fixes",
    "Choose as few fixes of STATUS_RACE as hold against each of its faults.",
    names=["my_fixes"],
    starter=(("lock", "guard"),),
    solution=(("one transaction", "event id"),),
    hints=(
        "Begin with all six. Take one out, and check again.",
        "Which fixes make it *right* that two workers complete one job, and which only make it rare?",
        "Two are enough. One is about what the worker writes, the other about who reads what it wrote.",
    ),
    incident=STATUS_RACE,
    advice={
        "a completed job stays completed": "a late worker makes a completed job something else. Which fix refuses it?",
        "the job is completed": "in the end the job is not completed, and its message is gone. Who deleted it?",
        "the event of a completed job went out": "the job is completed, and its event was never published. What may "
        "come between the two?",
        "the event goes out at most once": "the event goes out twice. Who published the second, and what did it know?",
    },
    praise="Each of these is needed, and nothing else is.",
    mistakes=[
        Mistake("nothing", ((),), "Against 'at once': a late worker makes a completed job"),
        Mistake("lock and guard, as in the article", (("lock", "guard"),), "Against 'pause': the event goes out twice"),
        Mistake(
            "all fixes around the lock", (("owner", "guard", "busy"),), "Against 'pause': the event goes out twice"
        ),
        Mistake("the events alone", (("guard", "event id"),), "was never published"),
        Mistake("the transaction alone", (("one transaction",),), "Against 'crash': the event goes out twice"),
        Mistake("all of them", (ALL,), "'lock' it still does: that fix is too many"),
        Mistake("a lock to be sure", (("owner", "one transaction", "event id"),), "'owner' it still does"),
        Mistake("a fix that there is not", (("locks",),), "There is no fix 'locks'"),
    ],
)
