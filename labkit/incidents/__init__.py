"""The two incidents as scenarios with every fix a parameter, what they left behind, and the seven-step flow."""

from labkit.incidents.case_file import deploy_case, evidence, status_race_case
from labkit.incidents.causes import ROOT_CAUSES, Cause
from labkit.incidents.deploy import DEPLOY
from labkit.incidents.ladder import Fault, Fix, Incident, Ladder
from labkit.incidents.production import Production
from labkit.incidents.rollout import Rollout
from labkit.incidents.status_race import STATUS_RACE
from labkit.incidents.traffic import Traffic

INCIDENTS = {"status-race": STATUS_RACE, "deploy": DEPLOY}

__all__ = [
    "DEPLOY",
    "INCIDENTS",
    "ROOT_CAUSES",
    "STATUS_RACE",
    "Cause",
    "Fault",
    "Fix",
    "Incident",
    "Ladder",
    "Production",
    "Rollout",
    "Traffic",
    "deploy_case",
    "evidence",
    "status_race_case",
]
