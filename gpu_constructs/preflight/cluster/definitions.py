"""Which software defines the kinds of an API group."""

from __future__ import annotations

from gpu_constructs.facts.charts import (
    DRA_DRIVERS,
    DYNAMO,
    GPU_OPERATOR,
    JOBSET,
    KAI_SCHEDULER,
    KEDA,
    KUBE_PROMETHEUS_STACK,
    KUBERAY,
    KUEUE,
    LEADER_WORKER_SET,
    VERTICAL_POD_AUTOSCALER,
)
from gpu_constructs.facts.labels import KUEUE_DOMAIN
from gpu_constructs.preflight.model.cluster import Cluster

# API group, and the charts that bring its definitions.
# Sources: kueue 0.19.2, kai-scheduler v0.17.0, keda 2.20.2, kube-prometheus-stack 88.5.3, vertical-pod-autoscaler
# 0.11.0, jobset 0.12.0, lws 0.10.0, kuberay-operator 1.7.0, dra-driver-nvidia-gpu 0.4.1: their crds/ and templates/.
CHARTS_OF_GROUP = {
    KUEUE_DOMAIN: (KUEUE,),
    "scheduling.run.ai": (KAI_SCHEDULER, DYNAMO),
    "keda.sh": (KEDA,),
    "monitoring.coreos.com": (KUBE_PROMETHEUS_STACK, "prometheus-operator-crds", "prometheus-operator"),
    "autoscaling.k8s.io": (VERTICAL_POD_AUTOSCALER, "vpa"),
    "jobset.x-k8s.io": (JOBSET,),
    "leaderworkerset.x-k8s.io": (LEADER_WORKER_SET, DYNAMO),
    "ray.io": (KUBERAY,),
    "resource.nvidia.com": (*DRA_DRIVERS, GPU_OPERATOR),
}


def is_defined(group: str, cluster: Cluster) -> bool:
    """Whether a chart or a definition in the input brings an API group."""
    charts = CHARTS_OF_GROUP.get(group, ())
    definitions = cluster.of_kind("CustomResourceDefinition")
    return any(each.name in charts for each in cluster.charts) or any(
        each.spec.get("group") == group for each in definitions
    )
