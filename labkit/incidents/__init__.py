"""The two incidents as scenarios with every fix a parameter, and the seven-step flow with its holes."""

from labkit.incidents.deploy import DEPLOY
from labkit.incidents.ladder import Fault, Fix, Incident, Ladder
from labkit.incidents.status_race import STATUS_RACE

__all__ = ["DEPLOY", "STATUS_RACE", "Fault", "Fix", "Incident", "Ladder"]
