"""Versions of software that do not go with that of the cluster, of the nodes, or of its other half."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.charts import DRA_DRIVERS, KARPENTER, KARPENTER_CRDS, KUBE_PROXY
from gpu_facts.kubernetes_support import OLDEST_KUBELET
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import branches_of, has_driver, image_of
from gpu_preflight.cluster.references import created_before
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.rules.rule import Problem, Subject, rule

_MINOR = regex(r"v?(1)\.([0-9]{1,3})\b")
_IMAGE = regex(r"kube-proxy:v(1\.[0-9]{1,3})\.")
_NOTHING = (0, 0)
# The least NVIDIA driver that takes claims of whole GPUs.
# Source: kubernetes-sigs/dra-driver-nvidia-gpu pull 1088 docs/prerequisites.md (2026-05)
_DRIVER_OF_CLAIMS = 565
# Source: NVIDIA/gpu-operator v26.7.0, kind GPUCluster: driver 580 and Kubernetes 1.34.2 at least (2026-08)
_DRIVER_OF_GPU_CLUSTER = 580


@rule("GPU447", "warning", source="https://kubernetes.io/releases/version-skew-policy/")
def kube_proxy_that_does_not_go_with_the_control_plane(case: Case) -> Iterator[Problem]:
    """kube-proxy that does not go with the control plane.

    It may not be newer than the API server, nor more than three minor versions older; Services may stop working.

    Fix: Take an add-on version of the cluster's minor version, after the control plane has it.
    """
    cluster = case.cluster
    plane = minor(cluster.version) if cluster.version else _NOTHING
    if plane == _NOTHING:
        return
    for subject, version in _proxies(cluster):
        found = _MINOR.match(version)
        runs = (int(found[1]), int(found[2])) if found else plane
        if runs > plane or plane[1] - runs[1] > OLDEST_KUBELET:
            yield Problem(subject, f"{KUBE_PROXY} {version} in a cluster of Kubernetes {cluster.version}")


def _proxies(cluster: Cluster) -> Iterator[tuple[Subject, str]]:
    """Yield each kube-proxy whose version is known: add-on, or DaemonSet by its image."""
    addon = cluster.addon(KUBE_PROXY)
    if addon is not None and addon.version:
        yield addon, addon.version
    for daemon in cluster.daemon_sets:
        images = (_IMAGE.search(each.image_text) for each in daemon.pod.containers or ())
        for found in images:
            if found:
                yield daemon, found[1]


@rule("GPU448", "warning", source="https://karpenter.sh/v1.15/upgrading/upgrade-guide/")
def definitions_of_karpenter_of_another_version(case: Case) -> Iterator[Problem]:
    """Definitions of Karpenter of another version than its controller.

    The API server refuses or drops fields and reasons that the one knows and the other does not.

    Fix: Give the charts karpenter-crd and karpenter the same version; upgrade the definitions first.
    """
    definitions, controller = case.cluster.chart(KARPENTER_CRDS), case.cluster.chart(KARPENTER)
    versions = [minor(each.version) for each in (definitions, controller) if each and each.version]
    if definitions and len(versions) > 1 and _NOTHING not in versions and versions[0] != versions[1]:
        text = f"{KARPENTER_CRDS} {definitions.version} beside Karpenter {controller.version if controller else ''}"
        yield Problem(definitions, text)


@rule(
    "GPU507",
    "warning",
    source="https://karpenter.sh/v1.15/troubleshooting/#helm-error-when-installing-the-karpenter-crd-chart",
)
def controller_of_karpenter_before_its_definitions(case: Case) -> Iterator[Problem]:
    """Karpenter's controller may be installed before its definitions.

    The controller's chart then creates definitions that no release owns, and the release of karpenter-crd fails on
    them. At an upgrade, the newer controller starts on the older definitions, which drop the fields that it writes.

    Fix: Add the release of karpenter-crd to DependsOn of Karpenter's release, in the CDK by
    karpenter.node.add_dependency(definitions).
    """
    cluster = case.cluster
    definitions, controller = cluster.chart(KARPENTER_CRDS), cluster.chart(KARPENTER)
    if definitions is None or controller is None:
        return
    first, second = (cluster.resources.get(each.origin.resource or "") for each in (definitions, controller))
    # Stacks have an order of their own.
    if first is None or second is None or first.file != second.file or first.key in created_before(second, cluster):
        return
    reversed_order = second.key in created_before(first, cluster)
    order = "is installed before" if reversed_order else "doesn't depend on"
    unknown = not reversed_order and (first.conditional or second.conditional)
    text = f"chart {KARPENTER}: {order} {first.path}, the release of {KARPENTER_CRDS}"
    yield Problem(controller, text, unknown=unknown)


@rule("GPU449", "warning", source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1088")
def image_whose_driver_is_too_old_for_what_manages_its_gpus(case: Case) -> Iterator[Problem]:
    """Image whose driver is too old for what manages its GPUs.

    The driver for claims asks for NVIDIA driver 565, a GPUCluster of the GPU Operator for 580; GPUs stay unclaimed.

    Fix: Take a newer release of the image; AL2023 has driver 580 since the end of 2025.
    """
    needed = _needed(case.cluster)
    if needed is None:
        return
    what, least = needed
    for pool in case.gpu_pools:
        ours = pool.kind != "auto-mode" and has_driver(pool) is Answer.YES
        carried = branches_of(pool, case.cluster.version) if ours and not _names_branch(str(image_of(pool))) else None
        if carried and max(carried) < least:
            yield Problem.of(pool, f"its image loads NVIDIA driver {max(carried)}, and {what} needs {least}")


def _names_branch(image: str) -> bool:
    """Whether an image says its driver by itself."""
    return re.search(r"nvidia-\d{3}", image) is not None


def _needed(cluster: Cluster) -> tuple[str, int] | None:
    """Return what manages GPUs by claims, and the least driver that it takes."""
    if found := cluster.of_kind("GPUCluster"):
        return f"GPUCluster {found[0].name}", _DRIVER_OF_GPU_CLUSTER
    chart = next((each for each in map(cluster.chart, DRA_DRIVERS) if each), None)
    return (f"chart {chart.name}", _DRIVER_OF_CLAIMS) if chart else None
