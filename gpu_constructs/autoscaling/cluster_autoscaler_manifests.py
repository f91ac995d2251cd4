"""The Kubernetes objects of cluster autoscaler.

They are literals, because cdk8s-plus takes a quarter of a second to load. Keys are in the order of cdk8s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_facts.charts import CLUSTER_AUTOSCALER, PRIORITY_EXPANDER
from gpu_facts.kubernetes import CLUSTER_CRITICAL, KUBE_SYSTEM
from gpu_facts.labels import APP_NAME, POOL, SAFE_TO_EVICT

_PORT = 8085
_LABELS = {APP_NAME: CLUSTER_AUTOSCALER}
_ANNOTATIONS = {
    # The autoscaler must not remove its own node.
    SAFE_TO_EVICT: "false",
    "prometheus.io/port": str(_PORT),
    "prometheus.io/scrape": "true",
}
_RBAC = "rbac.authorization.k8s.io"
_RBAC_VERSION = f"{_RBAC}/v1"

# An API group, and the resources, verbs and names of objects, each separated by spaces.
Rule = tuple[str, str, str, str]

# If the process may not list or watch one of these, it runs and is ready, but never finishes its first loop.
# Source: kubernetes/autoscaler cluster-autoscaler-1.36.1
# cluster-autoscaler/cloudprovider/aws/examples/cluster-autoscaler-autodiscover.yaml
CLUSTER_RULES: tuple[Rule, ...] = (
    ("", "events endpoints", "create patch", ""),
    ("", "pods/eviction", "create", ""),
    ("", "pods/status", "update", ""),
    ("", "endpoints", "get update", CLUSTER_AUTOSCALER),
    ("", "nodes", "watch list get update", ""),
    (
        "",
        "namespaces pods services replicationcontrollers persistentvolumeclaims persistentvolumes",
        "watch list get",
        "",
    ),
    ("policy", "poddisruptionbudgets", "watch list", ""),
    ("apps", "statefulsets replicasets daemonsets", "watch list get", ""),
    ("resource.k8s.io", "deviceclasses resourceslices resourceclaims", "watch list get", ""),
    (
        "storage.k8s.io",
        "storageclasses csinodes csidrivers csistoragecapacities volumeattachments",
        "watch list get",
        "",
    ),
    ("batch", "jobs", "get list watch patch", ""),
    ("coordination.k8s.io", "leases", "create", ""),
    ("coordination.k8s.io", "leases", "get update", CLUSTER_AUTOSCALER),
)
_NAMESPACE_RULES: tuple[Rule, ...] = (
    ("", "configmaps", "create list watch", ""),
    ("", "configmaps", "delete get update watch", f"cluster-autoscaler-status {PRIORITY_EXPANDER}"),
)


def cluster_autoscaler_manifests(
    *, region: str, image: str, command: Sequence[str], priorities: str | None = None
) -> list[dict[str, Any]]:
    """Return service account, RBAC, Deployment and disruption budget, and the ranks of groups if there are any."""
    named = {"labels": _LABELS, "name": CLUSTER_AUTOSCALER}
    namespaced = {**named, "namespace": KUBE_SYSTEM}
    pod = _pod(command=command, region=region, image=image)
    template = {"metadata": {"annotations": _ANNOTATIONS, "labels": _LABELS}, "spec": pod}
    selector = {"matchLabels": _LABELS}
    ranks = {"metadata": {**namespaced, "name": PRIORITY_EXPANDER}, "data": {"priorities": priorities}}
    objects: list[tuple[str, str, Mapping[str, Any]]] = [
        ("v1", "ServiceAccount", {"metadata": namespaced}),
        (_RBAC_VERSION, "ClusterRole", {"metadata": named, "rules": _rules(CLUSTER_RULES)}),
        (_RBAC_VERSION, "ClusterRoleBinding", {"metadata": named, **_binding("ClusterRole")}),
        (_RBAC_VERSION, "Role", {"metadata": namespaced, "rules": _rules(_NAMESPACE_RULES)}),
        (_RBAC_VERSION, "RoleBinding", {"metadata": namespaced, **_binding("Role")}),
        *([("v1", "ConfigMap", ranks)] if priorities is not None else []),
        (
            "apps/v1",
            "Deployment",
            {"metadata": namespaced, "spec": {"replicas": 1, "selector": selector, "template": template}},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"metadata": namespaced, "spec": {"maxUnavailable": 1, "selector": selector}},
        ),
    ]
    return [{"apiVersion": version, "kind": kind, **parts} for version, kind, parts in objects]


def _rules(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [group],
            **({"resourceNames": names.split()} if names else {}),
            "resources": resources.split(),
            "verbs": verbs.split(),
        }
        for group, resources, verbs, names in rules
    ]


def _binding(role: str) -> dict[str, Any]:
    """Return the fields of a binding of the autoscaler's service account to its role of a kind."""
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": CLUSTER_AUTOSCALER},
        "subjects": [{"kind": "ServiceAccount", "name": CLUSTER_AUTOSCALER, "namespace": KUBE_SYSTEM}],
    }


def _pod(*, command: Sequence[str], region: str, image: str) -> dict[str, Any]:
    not_on_gpu_nodes = {"nodeSelectorTerms": [{"matchExpressions": [{"key": POOL, "operator": "DoesNotExist"}]}]}
    memory = "600Mi"
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": not_on_gpu_nodes}},
        "containers": [
            {
                "command": ["./cluster-autoscaler", *command],
                "env": [{"name": "AWS_REGION", "value": region}],
                "image": image,
                "livenessProbe": {"httpGet": {"path": "/health-check", "port": _PORT}},
                "name": CLUSTER_AUTOSCALER,
                "ports": [{"containerPort": _PORT, "name": "metrics"}],
                "resources": {"limits": {"memory": memory}, "requests": {"cpu": "100m", "memory": memory}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
            }
        ],
        "priorityClassName": CLUSTER_CRITICAL,
        "securityContext": {
            "fsGroup": 65534,
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccountName": CLUSTER_AUTOSCALER,
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
    }
