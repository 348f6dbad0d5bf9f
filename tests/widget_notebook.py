"""A notebook that uses every widget, for tests that run it in a browser, with nbval, and twice."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

CELLS = {
    "imports": """
from labkit import explore
from labkit.exercises import complete_once
from labkit.widgets import Browser, Hints, Parsons, Prediction, Quiz, Stepper, Tuner, recap
""",
    "scenario": """
def handle(r, mail):
    seen = r.get("order:1:mailed")
    if seen is None:
        r.set("order:1:mailed", "yes", ex=30)
        mail.send("order-1")


def two_handlers(lab):
    for name in "AB":
        lab.worker(name, handle, lab.redis(), lab.mail)
    lab.always("at most one mail", lambda: lab.mail.count("order-1") <= 1)
    lab.at_end("a mail went out", lambda: lab.mail.count("order-1") >= 1)
""",
    "number": """
steps = Prediction("After how many steps, at least, is the mail out twice?", unit="steps")
steps
""",
    "choice": """
what = Prediction("What can go wrong?", choices=["twice", "lost", "nothing"])
what
""",
    "words": """
why = Prediction("Why?", text=True)
why
""",
    "predict": """
crash = Prediction("How many choices does it take to lose the mail, with one crash?", unit="choices")
crash
""",
    "look": """
if crash.said is not None:
    crash.compare(4)
""",
    "stepper": """
Stepper(two_handlers, breaks="at most one mail", goal="Make both mails go out.", crashes=1, pauses=1)
""",
    "search": """
verdict = explore(two_handlers, crashes=1)
steps.compare(verdict.counterexample.length)
""",
    "compare": """
what.compare("twice")
why.compare("both read before either wrote")
""",
    "from a counterexample": """
Stepper.of(verdict)
""",
    "parsons": """
Parsons(two_handlers, breaks="at most one mail", goal="Make both mails go out.")
""",
    "tuner": """
Tuner()
""",
    "hints": """
Hints("What did each worker see?", "Look between GET and SET.", "SET has NX.", solution="r.set(key, 1, nx=True)")
""",
    "quiz": """
answers = {"chance": "No: this schedule does it every time.", "both read nil": "Each read before the other wrote."}
Quiz([("Why do both mails go out?", answers, "both read nil")])
""",
    "browser": """
Browser(verdict)
""",
    "answer": """
def check_then_set(r, job):
    if r.get(f"job_status:{job}") != b"completed":
        r.set(f"job_status:{job}", "completed")
        r.rpush("outbox", job)


complete_once.check(check_then_set)
""",
    "error": """
def fragile(lab):
    lab.worker("A", lambda r: r.set("key", "value"), lab.redis())
    seen = lab.redis()
    lab.always("the value is a number", lambda: int(seen.get("key") or 1) > 0)


Stepper(fragile)
""",
    "recap": """
recap()
""",
}


def number_of(name):
    """The number of a cell, from 1."""
    return list(CELLS).index(name) + 1


def write_notebook(path):
    """Write the notebook, without outputs."""
    cells = [new_code_cell(source.strip(), id=f"cell-{place:02}") for place, source in enumerate(CELLS.values())]
    notebook = new_notebook(cells=cells)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)
