"""Claimed devices that nothing can give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.claim_drivers import claims_chart, offers_gpus
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, is_true, known_text
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.claims import count_of, requests_of, ways_of

_DRA = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/.../templates/deviceclass-*.yaml
_NVIDIAS = (
    DEVICE_CLASS,
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
)
# Made where the driver is told that it has GPUs.
_OF_GPUS = _NVIDIAS[:3]
_NEAR = 0.75
# Kubernetes serves resource.k8s.io/v1 from here on.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
_SERVED_FROM = (1, 34)
_SERVED = "resource.k8s.io/v1"


def _claims(cluster: Cluster) -> Iterator[tuple[Workload, str, str]]:
    """Yield each claim of each workload: kind and name of the object that it needs."""
    for workload in cluster.workloads:
        for each in workload.pod.claims:
            for kind, written in (("ResourceClaim", each.claim), ("ResourceClaimTemplate", each.template)):
                if name := known_text(written):
                    yield workload, kind, name


def _object(cluster: Cluster, workload: Workload, kind: str, name: str) -> Object | None:
    found = cluster.of_kind(kind)
    return next((each for each in found if (each.namespace, each.name) == (workload.namespace, name)), None)


@rule("GPU131", "error", source=_DRA)
def claim_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Claim that does not exist.

    The pod waits for a ResourceClaim or for the template of one.

    Fix: Create it in the pod's namespace, or correct the name.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    for workload, kind, name in _claims(cluster):
        if _object(cluster, workload, kind, name) is None:
            text = f"{kind} {workload.namespace}/{name} does not exist"
            yield Problem.of(workload, text, unknown=not cluster.sees_software)


@rule("GPU132", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html")
def claimed_device_class_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Claimed device class that nothing installs.

    The claim is never allocated, and its pods stay Pending.

    Fix: Install NVIDIA's DRA driver, which brings its device classes.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    known = {each.name for each in cluster.of_kind("DeviceClass")}
    for claim in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        for ways in ways_of(claim):
            names = [known_text(each.get("deviceClassName")) for each in ways]
            absent = [name for name in names if name and name not in known and _is_absent(name, cluster)]
            if absent and len(absent) == len(names):
                text = f"{claim.kind} {claim.name}: nothing installs DeviceClass {absent[0]}"
                yield Problem(claim, text, unknown=not cluster.sees_software)


def _is_absent(name: str, cluster: Cluster) -> bool:
    """Whether a class is NVIDIA's own, and no release of its driver makes it."""
    chart = claims_chart(cluster)
    operator = cluster.chart(GPU_OPERATOR)
    if operator is not None and dig(operator.values, "gpuCluster", "deployCR") not in (None, False, "false"):
        return False
    if chart is None:
        return name.endswith(".nvidia.com")
    return name in _OF_GPUS and not offers_gpus(chart)


@rule("GPU388", "warning", source=_DRA)
def claimed_device_class_that_is_misspelt(case: Case) -> Iterator[Problem]:
    """Claimed device class that is misspelt.

    The claim is never allocated, and its pods stay Pending.

    Fix: Write the name of a DeviceClass that is there.
    """
    cluster = case.cluster
    known = {*_NVIDIAS, *(each.name for each in cluster.of_kind("DeviceClass"))}
    for claim in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        for each in requests_of(claim):
            name = known_text(each.get("deviceClassName"))
            if name and name not in known and (near := did_you_mean(name, known, closeness=_NEAR)):
                text = f"{claim.kind} {claim.name}: nothing here installs DeviceClass {name}{near}"
                yield Problem(claim, text, unknown=not cluster.sees_objects)


@rule("GPU133", "error", source=_DRA)
def claim_of_more_gpus_than_a_node_has(case: Case) -> Iterator[Problem]:
    """Claim of more GPUs than a node has.

    A claim is met by the devices of one node.

    Fix: Claim at most the GPUs of one node and spread the work over several pods, or add a pool of a larger type.
    """
    cluster = case.cluster
    most = max((catalogue()[name].gpus for pool in case.gpu_pools for name in gpu_types(pool)), default=0)
    for claim in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        gpus = sum(min(map(_gpus, ways), default=0) for ways in ways_of(claim))
        if most and gpus > most:
            text = f"{claim.kind} {claim.name}: claims {gpus} GPUs, no node of the pools has more than {most}"
            yield Problem(claim, text, unknown=not cluster.whole)


def _gpus(request: Mapping[str, Any]) -> int:
    """Return how many whole GPUs a request takes, at least."""
    whole = request.get("deviceClassName") == DEVICE_CLASS and not request.get("capacity")
    return (count_of(request) or 0) if whole and not is_true(request.get("adminAccess")) else 0


@rule("GPU134", "error", source="https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/")
def claims_on_a_kubernetes_version_without_their_api(case: Case) -> Iterator[Problem]:
    """Claims on a Kubernetes version without their API.

    The API server does not know the kind, and the deployment fails.

    Fix: Use Kubernetes 1.34 or later.
    """
    cluster = case.cluster
    version = cluster.version
    if version is None or minor(version) >= _SERVED_FROM or minor(version) == (0, 0):
        return
    for each in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"):
        if each.content.get("apiVersion") == _SERVED:
            yield Problem(each, f"{each.kind} {each.name}: Kubernetes {version} does not serve {_SERVED}")
