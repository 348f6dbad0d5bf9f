"""The evidence of the two incidents, ready to be asked."""

from __future__ import annotations

from functools import lru_cache

from labkit.errors import LabError
from labkit.incidents import deploy_evidence, race_evidence
from labkit.incidents.deploy_evidence import DeployEvidence
from labkit.incidents.race_evidence import RaceEvidence


@lru_cache
def deploy_case() -> DeployEvidence:
    """What the deploy left behind: jobs that ran twice one to two minutes after it."""
    return DeployEvidence(deploy_evidence.INCIDENT.run())


@lru_cache
def status_race_case() -> RaceEvidence:
    """What the status race left behind: two workers in one job, milliseconds apart."""
    return RaceEvidence(race_evidence.INCIDENT.run())


def evidence(incident: str = "deploy") -> DeployEvidence | RaceEvidence:
    """The evidence of an incident, `deploy` or `status-race`; it is simulated once, and always the same."""
    if incident == "deploy":
        return deploy_case()
    if incident == "status-race":
        return status_race_case()
    raise LabError(f"there is no evidence of {incident!r}; there is of 'deploy' and 'status-race'")
