"""Drivers that offer GPUs to claims, and, from Kubernetes 1.36 on, to pods that ask for them by name.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/;
kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go ``DRAExtendedResource``
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DRA_DRIVER, DRA_DRIVERS
from gpu_facts.resources import DEVICE_CLASS, GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import Unknown, dig

_PROGRAM = "gpu-kubelet-plugin"
# The scheduler looks among claimed devices for what pods ask for by name: beta, and on, from here on.
_BY_NAME_FROM = (1, 36)


def claims_chart(cluster: Cluster) -> Chart | None:
    """Return the release of NVIDIA's DRA driver."""
    return next((chart for each in DRA_DRIVERS if (chart := cluster.chart(each))), None)


def offers_gpus(chart: Chart) -> bool:
    """Whether a release of the driver may have GPUs, and not only compute domains."""
    return dig(chart.values, "resources", "gpus", "enabled") not in (False, "false")


def claim_drivers(cluster: Cluster) -> list[DaemonSet]:
    """Return the DaemonSets that offer GPUs to claims."""
    chart = claims_chart(cluster)
    origin = chart.origin if chart is not None and offers_gpus(chart) else None
    charted = [each for each in cluster.daemon_sets if origin is not None and each.origin == origin]
    written = {each.origin for each in cluster.of_kind("DaemonSet")}
    return [*charted, *(each for each in cluster.daemon_sets if each.origin in written and _is_one(each))]


def _is_one(daemon: DaemonSet) -> bool:
    """Whether a manifest runs the part of NVIDIA's DRA driver that has GPUs, and not only that of compute domains."""
    words = [str(word) for each in daemon.pod.containers or () for word in (each.name, *each.words)]
    return any(_PROGRAM in word for word in words)


def gives_gpus_by_name(cluster: Cluster, version: tuple[int, int] | None) -> Answer:
    """Say whether a pod that asks for ``nvidia.com/gpu`` is given a claimed device.

    Args:
        cluster: The cluster.
        version: Its Kubernetes minor version; ``None`` where that is not known.
    """
    if version is not None and version < _BY_NAME_FROM:
        return Answer.NO
    named = list(_names(cluster))
    if GPU in named:
        return Answer.UNKNOWN if version is None else Answer.YES
    return Answer.UNKNOWN if any(isinstance(each, Unknown) for each in named) else Answer.NO


def _names(cluster: Cluster) -> Iterator[object]:
    """Yield under which names device classes have their devices asked for."""
    chart = claims_chart(cluster)
    if chart is not None and offers_gpus(chart):
        yield _of_chart(chart)
    for each in cluster.of_kind("DeviceClass"):
        if each.name == DEVICE_CLASS or DEVICE_CLASS in str(each.spec.get("selectors")):
            yield each.spec.get("extendedResourceName")


def _of_chart(chart: Chart) -> object:
    """Return the name that the chart's own class gives GPUs; one that is told another API gives none."""
    if chart.name != DRA_DRIVER:
        return Unknown("${classes of its older chart}")
    served = dig(chart.values, "resourceApiVersion")
    if isinstance(served, Unknown):
        return served
    return GPU if served in (None, "", "resource.k8s.io/v1") else None


def is_of_gpus(name: object, cluster: Cluster) -> Answer:
    """Say whether a device class is of whole GPUs; unknown where the cluster's own class selects among them."""
    if name == DEVICE_CLASS:
        return Answer.YES
    own = next((each for each in cluster.of_kind("DeviceClass") if each.name == name), None)
    return Answer.UNKNOWN if own is not None and DEVICE_CLASS in str(own.spec.get("selectors")) else Answer.NO
