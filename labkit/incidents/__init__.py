"""The two incidents as scenarios with every fix a parameter, and the seven-step flow with its holes."""

from labkit.incidents.deploy import DEPLOY
from labkit.incidents.ladder import Fault, Fix, Incident, Ladder
from labkit.incidents.rollout import Rollout
from labkit.incidents.status_race import STATUS_RACE

INCIDENTS = {"status-race": STATUS_RACE, "deploy": DEPLOY}

__all__ = [
    "DEPLOY",
    "INCIDENTS",
    "STATUS_RACE",
    "Fault",
    "Fix",
    "Incident",
    "Ladder",
    "Rollout",
]
