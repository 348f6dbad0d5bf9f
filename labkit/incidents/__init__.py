"""The two incidents with every fix a parameter, what they left behind, a staging test for real, and the checklist."""

from labkit.incidents.case_file import deploy_case, evidence, status_race_case
from labkit.incidents.causes import ROOT_CAUSES, Cause
from labkit.incidents.checklist import CHECKLIST, Point
from labkit.incidents.deploy import DEPLOY
from labkit.incidents.ladder import Fault, Fix, Incident, Ladder
from labkit.incidents.production import Production
from labkit.incidents.rollout import Rollout
from labkit.incidents.staged_run import StagedRun, staged
from labkit.incidents.staging_report import StagingReport
from labkit.incidents.staging_run import staging
from labkit.incidents.staging_world import Staging
from labkit.incidents.status_race import STATUS_RACE
from labkit.incidents.traffic import Traffic

INCIDENTS = {"status-race": STATUS_RACE, "deploy": DEPLOY}

__all__ = [
    "CHECKLIST",
    "DEPLOY",
    "INCIDENTS",
    "ROOT_CAUSES",
    "STATUS_RACE",
    "Cause",
    "Fault",
    "Fix",
    "Incident",
    "Ladder",
    "Point",
    "Production",
    "Rollout",
    "StagedRun",
    "Staging",
    "StagingReport",
    "Traffic",
    "deploy_case",
    "evidence",
    "staged",
    "staging",
    "status_race_case",
]
