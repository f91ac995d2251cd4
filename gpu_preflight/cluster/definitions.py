"""Which software defines the kinds of an API group."""

from __future__ import annotations

from gpu_facts.charts import (
    DRA_DRIVERS,
    DYNAMO,
    DYNAMO_CRDS,
    GPU_OPERATOR,
    JOBSET,
    KAI_SCHEDULER,
    KEDA,
    KUBE_PROMETHEUS_STACK,
    KUBERAY,
    KUEUE,
    LEADER_WORKER_SET,
    MPI_OPERATOR,
    VERTICAL_POD_AUTOSCALER,
    VOLCANO,
)
from gpu_facts.labels import KUEUE_DOMAIN
from gpu_facts.light_patterns import regex
from gpu_facts.schemas import KUBERNETES, source_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig
from gpu_preflight.schema.fields import kind_of

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
    # The training operator and the MPI operator come as manifests; other people's charts have their names.
    "kubeflow.org": ("training-operator", MPI_OPERATOR, "kubeflow-training-operator"),
    "trainer.kubeflow.org": ("kubeflow-trainer", "trainer"),
    "batch.volcano.sh": (VOLCANO,),
    "scheduling.volcano.sh": (VOLCANO,),
    "serving.kserve.io": ("kserve-crd", "kserve-crd-minimal", "kserve-llmisvc-crd", "kserve"),
}
# Of a group that several programs share, kinds and the charts that bring each.
# Sources: gpu-operator v26.7.0 deployments/gpu-operator/crds, ai-dynamo/dynamo v1.5 deploy/helm/charts.
CHARTS_OF_KIND = {
    "ClusterPolicy": (GPU_OPERATOR,),
    "NVIDIADriver": (GPU_OPERATOR,),
    "DynamoGraphDeployment": (DYNAMO, DYNAMO_CRDS),
    "DynamoComponentDeployment": (DYNAMO, DYNAMO_CRDS),
}
NVIDIA_GROUP = "nvidia.com"
_MINOR = regex(r"(\d+)\.(\d+)")


def charts_of(each: Object) -> tuple[str, ...]:
    """Return the charts that define the kind of an object; none where no table says."""
    return CHARTS_OF_KIND.get(each.kind, ()) if each.group == NVIDIA_GROUP else CHARTS_OF_GROUP.get(each.group, ())


def is_kind_defined(each: Object, cluster: Cluster) -> bool:
    """Whether a chart or a definition in the input brings the kind of an object."""
    definitions = cluster.of_kind("CustomResourceDefinition")
    return any(chart.name in charts_of(each) for chart in cluster.charts) or any(
        one.spec.get("group") == each.group and dig(one.spec, "names", "kind") in (each.kind, None)
        for one in definitions
    )


def is_defined(group: str, cluster: Cluster) -> bool:
    """Whether a chart or a definition in the input brings an API group, or objects by hand say that somebody did."""
    if not cluster.charts and any(each.group == group and each.origin.resource is None for each in cluster.objects):
        return True
    charts = CHARTS_OF_GROUP.get(group, ())
    definitions = cluster.of_kind("CustomResourceDefinition")
    return any(each.name in charts for each in cluster.charts) or any(
        each.spec.get("group") == group for each in definitions
    )


def other_definition(each: Object, cluster: Cluster) -> str | None:
    """Return what defines the kind of an object in a cluster, where it is known to be another than what was read.

    The API of Kubernetes itself loses no field of a version, so that only a newer one may take more.
    """
    source = source_of(kind_of(each))
    if source is None:
        return None
    if source.name == KUBERNETES:
        newer = cluster.version is not None and _minor(cluster.version) > _minor(source.version)
        return f"Kubernetes {cluster.version}" if newer else None
    for one in cluster.of_kind("CustomResourceDefinition"):
        if one.spec.get("group") == each.group and dig(one.spec, "names", "kind") == each.kind:
            return one.origin.path
    for name, read in source.charts.items():
        chart = cluster.chart(name)
        if chart is not None and chart.version and _minor(chart.version) != _minor(read):
            return f"chart {name} {chart.version}"
    return None


def read_version(each: Object) -> str:
    """Return whose definition of the kind of an object was read, with its version."""
    source = source_of(kind_of(each))
    return f"{source.name} {source.version}" if source else ""


def _minor(version: str) -> tuple[int, ...]:
    found = _MINOR.search(version)
    return tuple(map(int, found.groups())) if found else ()
