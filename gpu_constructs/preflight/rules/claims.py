"""Claimed devices that nothing can give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.model import Cluster, Object, Workload
from gpu_constructs.preflight.nodes import gpu_types, minor
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, known_number, known_text, mapping, mappings

_DRA = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"
_DRIVERS = ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu")
_GPU_CLASS = "gpu.nvidia.com"
# Kubernetes serves resource.k8s.io/v1 from here on.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
_SERVED_FROM = (1, 34)
_SERVED = "resource.k8s.io/v1"


def _claims(cluster: Cluster) -> Iterator[tuple[Workload, str, str]]:
    """Yield each claim of each workload: kind and name of the object that it needs."""
    for workload in cluster.workloads:
        for each in mappings(workload.pod.get("resourceClaims")):
            for field, kind in (
                ("resourceClaimName", "ResourceClaim"),
                ("resourceClaimTemplateName", "ResourceClaimTemplate"),
            ):
                if name := known_text(each.get(field)):
                    yield workload, kind, name


def _object(cluster: Cluster, workload: Workload, kind: str, name: str) -> Object | None:
    found = cluster.of_kind(kind)
    return next((each for each in found if (each.namespace, each.name) == (workload.namespace, name)), None)


def _missing(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software:
        return
    for workload, kind, name in _claims(cluster):
        if _object(cluster, workload, kind, name) is None:
            text = f"{workload.name}: {kind} {workload.namespace}/{name} does not exist"
            yield Problem(workload.origin, text)


def _requests(claim: Object) -> list[dict[str, Any]]:
    """Return what a claim or a template of one asks for, in the spelling of v1 or of the betas."""
    spec = mapping(claim.spec.get("spec")) if claim.kind == "ResourceClaimTemplate" else dict(claim.spec)
    listed = mappings(dig(spec, "devices", "requests"))
    return [mapping(each.get("exactly")) or each for each in listed]


def _no_class(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software or any(cluster.chart(each) for each in _DRIVERS):
        return
    known = {each.name for each in cluster.of_kind("DeviceClass")}
    for claim in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        for each in _requests(claim):
            name = known_text(each.get("deviceClassName"))
            if name and name.endswith(".nvidia.com") and name not in known:
                yield Problem(claim.origin, f"{claim.kind} {claim.name}: nothing installs DeviceClass {name}")


def _too_many(cluster: Cluster) -> Iterator[Problem]:
    most = max((catalogue()[name].gpus for pool in cluster.gpu_pools for name in gpu_types(pool)), default=0)
    for claim in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        gpus = sum(_count(each) for each in _requests(claim) if each.get("deviceClassName") == _GPU_CLASS)
        if most and gpus > most:
            text = f"{claim.kind} {claim.name}: claims {gpus} GPUs, no node of the pools has more than {most}"
            yield Problem(claim.origin, text, unknown=not cluster.whole)


def _count(request: dict[str, Any]) -> int:
    return 1 if request.get("count") is None else known_number(request.get("count")) or 0


def _not_served(cluster: Cluster) -> Iterator[Problem]:
    version = cluster.version
    if version is None or minor(version) >= _SERVED_FROM or minor(version) == (0, 0):
        return
    for each in cluster.of_kind("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"):
        if each.content.get("apiVersion") == _SERVED:
            yield Problem(each.origin, f"{each.kind} {each.name}: Kubernetes {version} does not serve {_SERVED}")


RULES = (
    Rule(
        id="GPU131",
        severity="error",
        title="Claim that does not exist",
        why="The pod waits for a ResourceClaim or for the template of one.",
        source=_DRA,
        fix="Create it in the pod's namespace, or correct the name.",
        causes=("E14",),
        check=_missing,
    ),
    Rule(
        id="GPU132",
        severity="error",
        title="Claimed device class that nothing installs",
        why="The claim is never allocated, and its pods stay Pending.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html",
        fix="Install NVIDIA's DRA driver, which brings its device classes.",
        causes=("E14",),
        check=_no_class,
    ),
    Rule(
        id="GPU133",
        severity="error",
        title="Claim of more GPUs than a node has",
        why="A claim is met by the devices of one node.",
        source=_DRA,
        fix="Claim at most the GPUs of one node and spread the work over several pods, or add a pool of a larger type.",
        causes=("E4", "E14"),
        check=_too_many,
    ),
    Rule(
        id="GPU134",
        severity="error",
        title="Claims on a Kubernetes version without their API",
        why="The API server does not know the kind, and the deployment fails.",
        source="https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/",
        fix="Use Kubernetes 1.34 or later.",
        causes=("E14",),
        check=_not_served,
    ),
)
