"""What a learner touches: the stepper, predictions, cards to order, sliders, hints, quizzes, a checklist."""

from labkit.widgets.browser import Browser
from labkit.widgets.checklist import Checklist
from labkit.widgets.here_and_now import HereAndNow
from labkit.widgets.hints import Hints
from labkit.widgets.parsons import Parsons
from labkit.widgets.prediction import Prediction, recap
from labkit.widgets.quiz import Quiz
from labkit.widgets.stepper import Stepper
from labkit.widgets.tuner import Tuner

__all__ = ["Browser", "Checklist", "HereAndNow", "Hints", "Parsons", "Prediction", "Quiz", "Stepper", "Tuner", "recap"]
