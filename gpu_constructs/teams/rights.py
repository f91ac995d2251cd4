"""What people may do with kinds that no access policy of EKS covers, as rules of RBAC.

A rule for a kind that a cluster does not have lets nobody do anything, so every team has the same.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html (2026-11), definitions and
ClusterRoles in the charts of Kueue v0.19.2, KAI v0.17.0, JobSet 0.12.0, LeaderWorkerSet 0.10.0, KubeRay 1.7.0, KEDA
2.20.2, Trainer 2.3.0, Karpenter v1.14.1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.labels import EKS_DOMAIN, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN

# What a member may do: the words of Kubernetes' own roles for people.
Right = Literal["view", "edit", "admin"]
# The policy for one namespace.
POLICIES: Mapping[Right, str] = {
    "view": "AmazonEKSViewPolicy",
    "edit": "AmazonEKSEditPolicy",
    "admin": "AmazonEKSAdminPolicy",
}
Rule = dict[str, list[str]]

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_KAI = "scheduling.run.ai"
# Plurals by API group. What members make:
_MADE: Mapping[str, tuple[str, ...]] = {
    "jobset.x-k8s.io": ("jobsets",),
    "leaderworkerset.x-k8s.io": ("leaderworkersets", "leaderworkersets/scale"),
    "kubeflow.org": tuple(f"{each.lower()}s" for each in TRAINING_JOBS),
    "trainer.kubeflow.org": ("trainjobs", "trainingruntimes"),
    "ray.io": ("rayclusters", "rayjobs", "rayservices"),
    "nvidia.com": ("dynamographdeployments",),
    "resource.k8s.io": ("resourceclaims", "resourceclaimtemplates"),
    "keda.sh": ("scaledjobs", "scaledobjects", "triggerauthentications"),
    "autoscaling.k8s.io": ("verticalpodautoscalers",),
}
# What is made for them, or for their cluster by who runs it.
_SEEN: Mapping[str, tuple[str, ...]] = {
    KUEUE_DOMAIN: ("localqueues", "workloads"),
    "visibility.kueue.x-k8s.io": ("localqueues/pendingworkloads",),
    _KAI: ("podgroups",),
    "metrics.k8s.io": ("pods",),
}
# What belongs to no namespace. Secrets are in none of these lists.
_OF_THE_CLUSTER: Mapping[str, tuple[str, ...]] = {
    "": ("nodes", "persistentvolumes"),
    KUEUE_DOMAIN: ("admissionchecks", "clusterqueues", "cohorts", "resourceflavors", "topologies"),
    "visibility.kueue.x-k8s.io": ("clusterqueues/pendingworkloads",),
    _KAI: ("queues",),
    KARPENTER_DOMAIN: ("nodeclaims", "nodeoverlays", "nodepools"),
    KARPENTER_AWS_DOMAIN: ("ec2nodeclasses",),
    EKS_DOMAIN: ("nodeclasses", "nodediagnostics"),
    "metrics.k8s.io": ("nodes",),
    "node.k8s.io": ("runtimeclasses",),
    "resource.k8s.io": ("deviceclasses", "resourceslices"),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": ("csidrivers", "csinodes", "storageclasses", "volumeattachments"),
}


def member_rules(right: Right) -> list[Rule]:
    """Return what members of a team may do in its namespace beside their policy."""
    made = _rules(_MADE, _READ if right == "view" else (*_READ, *_WRITE))
    return [*made, *_rules(_SEEN, _READ)]


def viewer_rules() -> list[Rule]:
    """Return what viewers of a cluster may do beside the policy for viewing."""
    return [*_rules(_MADE, _READ), *_rules(_SEEN, _READ), *_rules(_OF_THE_CLUSTER, _READ)]


def operator_rules() -> list[Rule]:
    """Return what operators of a cluster may do beside viewers: nothing that would run an image of their own.

    Whoever may write pods, or what makes them, in every namespace runs them as any service account, and so is an
    administrator. Operators end pods and what made them, and change how many there are.
    """
    return [
        # kubectl cordon, drain, taint and label.
        _rule("", ["nodes"], ["patch"]),
        _rule("", ["pods"], ["delete", "deletecollection"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("apps", ["deployments/scale", "replicasets/scale", "statefulsets/scale"], ["get", "patch", "update"]),
        _rule("batch", ["jobs"], ["delete", "deletecollection"]),
        *_rules(_MADE, ("delete", "deletecollection")),
        # Hold a queue, end what it admitted.
        _rule(KUEUE_DOMAIN, ["clusterqueues", "localqueues", "workloads"], ["patch"]),
        _rule(KARPENTER_DOMAIN, ["nodeclaims"], ["delete"]),
    ]


def _rules(resources: Mapping[str, tuple[str, ...]], verbs: tuple[str, ...]) -> list[Rule]:
    return [_rule(group, list(names), list(verbs)) for group, names in resources.items()]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def bound_role(name: str, group: str, rules: list[Rule], *, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return a role, of a namespace or of the cluster, and what binds a group to it."""
    rbac = "rbac.authorization.k8s.io"
    prefix = "" if namespace else "Cluster"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    role = {"apiVersion": f"{rbac}/v1", "kind": f"{prefix}Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": rbac, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
    }
    return [role, binding]
