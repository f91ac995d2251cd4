"""Objects of software that nothing in the cluster installs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.model import Cluster, Object
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, known_text

# API group, and the charts that bring its definitions.
# Sources: kueue 0.19.2, kai-scheduler v0.17.0, keda 2.20.2, kube-prometheus-stack 88.5.3, vertical-pod-autoscaler
# 0.11.0, jobset 0.12.0, lws 0.10.0, kuberay-operator 1.7.0, dra-driver-nvidia-gpu 0.4.1: their crds/ and templates/.
CHARTS_OF_GROUP = {
    "kueue.x-k8s.io": ("kueue",),
    "scheduling.run.ai": ("kai-scheduler", "dynamo-platform"),
    "keda.sh": ("keda",),
    "monitoring.coreos.com": ("kube-prometheus-stack", "prometheus-operator-crds", "prometheus-operator"),
    "autoscaling.k8s.io": ("vertical-pod-autoscaler", "vpa"),
    "jobset.x-k8s.io": ("jobset",),
    "leaderworkerset.x-k8s.io": ("lws", "dynamo-platform"),
    "ray.io": ("kuberay-operator",),
    "resource.nvidia.com": ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu", "gpu-operator"),
}


def is_defined(group: str, cluster: Cluster) -> bool:
    """Whether a chart or a definition in the input brings an API group."""
    charts = CHARTS_OF_GROUP.get(group, ())
    definitions = cluster.of_kind("CustomResourceDefinition")
    return any(each.name in charts for each in cluster.charts) or any(
        each.spec.get("group") == group for each in definitions
    )


def _undefined(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software:
        return
    first: dict[str, Object] = {}
    for each in cluster.objects:
        if each.group in CHARTS_OF_GROUP:
            first.setdefault(each.group, each)
    for group, example in first.items():
        if not is_defined(group, cluster):
            charts = CHARTS_OF_GROUP[group]
            message = f"{example.kind} {example.name}: nothing installs {group}, which chart {charts[0]} defines"
            yield Problem(example.origin, message)


def _unheld(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software or is_defined("kueue.x-k8s.io", cluster):
        return
    for each in cluster.workloads:
        queue = known_text(each.owner.labels.get("kueue.x-k8s.io/queue-name"))
        if queue and each.asks_for_gpu:
            yield Problem(each.origin, f"{each.name}: waits in queue {queue} of Kueue, which nothing installs")


def _both_topologies(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind("Service"):
        mode = each.annotations.get("service.kubernetes.io/topology-mode")
        spread = known_text(each.spec.get("trafficDistribution"))
        if mode is not None and spread and dig(dict(each.spec), "selector"):
            message = (
                f"Service {each.namespace}/{each.name}: annotation topology-mode hides trafficDistribution {spread}"
            )
            yield Problem(each.origin, message)


RULES = (
    Rule(
        id="GPU200",
        severity="error",
        title="Objects of software that nothing installs",
        why="The API server knows no such kind and refuses the object, so the deployment fails.",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/",
        fix="Install the software, and let its objects depend on it.",
        causes=("Q1",),
        check=_undefined,
    ),
    Rule(
        id="GPU208",
        severity="warning",
        title="Queue of Kueue without Kueue",
        why="The label means nothing then: no quota holds the job, and one that is suspended is never resumed.",
        source="https://kueue.sigs.k8s.io/docs/tasks/run/jobs/",
        fix="Install Kueue, or remove the label.",
        causes=("Q2",),
        check=_unheld,
    ),
    Rule(
        id="GPU219",
        severity="warning",
        title="Two ways of routing by zone on one Service",
        why="The annotation goes first and the field is not heard; neither has a say in where GPU pods are placed.",
        source="https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/",
        fix="Remove the annotation and keep trafficDistribution.",
        causes=("W4.1",),
        check=_both_topologies,
    ),
)
