"""What the workloads of a namespace ask for in all, against its quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_constructs.teams.team_quota import TeamQuota
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import Resources, add, pod_requests, quantity, show

_STAYING = ("Deployment", "StatefulSet")
_REQUESTS = "requests."


@named_arguments
@dataclass(slots=True)
class QuotaUse:
    """The quota of a team, and what its workloads take of it, in the order in which they are made.

    Attributes:
        quota: The quota.
        taken: Requests of the workloads counted so far that run permanently.
    """

    quota: TeamQuota
    taken: Resources = field(default_factory=dict)

    def take(self, manifest: Any) -> str | None:
        """Count a workload.

        Returns:
            The rule that its pods break, and what they ask for; ``None`` where the quota leaves enough.
        """
        found = _requests_at_once(manifest)
        if found is None:
            return None
        asked, stays = found
        for name, written in self.quota.hard.items():
            resource = name.removeprefix(_REQUESTS)
            most, wanted = quantity(resource, written) or 0, asked.get(resource, 0)
            before = self.taken.get(resource, 0)
            if wanted and wanted + before > most:
                others = f" in addition to {show(resource, before)} that earlier workloads request" if before else ""
                return f"ask for at most {show(resource, most)} {resource} in all, got {show(resource, wanted)}{others}"
        if stays:
            self.taken = add(self.taken, asked)
        return None


def _requests_at_once(manifest: Any) -> tuple[Resources, bool] | None:
    """Return what the pods of a workload ask for that run at the same time, and whether they stay.

    Independent pods of a Job can run one after another, so the quota must allow one at a time. A workload without a
    number of pods has at least one, which may be removed again.
    """
    kind, spec = manifest.get("kind"), manifest.get("spec") or {}
    if kind in _STAYING:
        pods = spec.get("replicas")
        return _times(spec["template"]["spec"], 1 if pods is None else pods), pods is not None
    if kind == "Job":
        together = "subdomain" in spec["template"]["spec"]
        return _times(spec["template"]["spec"], spec.get("parallelism", 1) if together else 1), False
    if kind == "LeaderWorkerSet":
        return _of_groups(spec), True
    if kind == "MPIJob":
        roles = spec["mpiReplicaSpecs"].values()
        return add(*(_times(role["template"]["spec"], role["replicas"]) for role in roles)), False
    return None


def _of_groups(spec: Mapping[str, Any]) -> Resources:
    templates, groups = spec["leaderWorkerTemplate"], spec.get("replicas", 1)
    worker = templates["workerTemplate"]["spec"]
    leader = templates.get("leaderTemplate", templates["workerTemplate"])["spec"]
    return add(_times(leader, groups), _times(worker, groups * (templates.get("size", 1) - 1)))


def _times(pod: Mapping[str, Any], number: int) -> Resources:
    """Return what a number of pods request; a number that only deployment sets is a token of the CDK, below zero."""
    return {name: amount * max(number, 0) for name, amount in pod_requests(pod).items()}
