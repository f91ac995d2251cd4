"""Images and charts that an isolated cluster can't pull: rejected at synth, when all routes are defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import constructs
import jsii
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import CHART_MIRROR
from gpu_facts.registries import NVIDIA_CHARTS, NVIDIA_REGISTRY, is_public
from gpu_facts.resources import NVIDIA
from gpu_facts.versions import Chart


def require_images_within_reach(
    applied: Construct, cluster: ClusterRef, manifests: Sequence[Mapping[str, Any]]
) -> None:
    """Reject at synth public images of GPU pods and DaemonSets in a cluster without a way to the internet.

    Args:
        applied: What applies the objects.
        cluster: Its cluster. A VPC that was imported, or that has a route, isn't checked.
        manifests: The objects.
    """
    if cluster.is_isolated:
        images = sorted({image for each in manifests for image in images_on_gpu_nodes(each) if is_public(image)})
        applied.node.add_validation(_WithinReach(applied, cluster, [f"image {each!r}" for each in images]))


def require_chart_within_reach(
    release: Construct, cluster: ClusterRef, chart: Chart, values: Mapping[str, Any], *, mirrored: bool
) -> None:
    """Reject at synth a chart, or its images on nvcr.io, in a cluster without a way to the internet.

    Args:
        release: What installs the chart.
        cluster: Its cluster. A VPC that was imported, or that has a route, isn't checked.
        chart: The chart.
        values: Its values.
        mirrored: Whether it is fetched from a mirror.
    """
    if not cluster.is_isolated:
        return
    section, name = NVIDIA_CHARTS.get(chart.name, ("", ""))
    images = bool(section) and (values.get(section) or {}).get(name) is None
    release.node.add_validation(
        _WithinReach(
            release,
            cluster,
            [f"the images of chart {chart.name!r} on {NVIDIA_REGISTRY}"] if images else [],
            charts=[] if mirrored else [f"chart {chart.name!r} from {chart.repository}"],
        )
    )


def images_on_gpu_nodes(value: Any, kind: str = "") -> Iterator[str]:
    """Yield the images of DaemonSets, and of pods that request or claim GPUs."""
    if isinstance(value, Mapping):
        kind = value.get("kind") or kind
        containers = [each for key in ("initContainers", "containers") for each in value.get(key) or ()]
        claims = bool(value.get("resourceClaims"))
        if containers and (kind == "DaemonSet" or claims or any(_requests_gpus(each) for each in containers)):
            yield from (image for each in containers if isinstance(image := each.get("image"), str))
        else:
            for each in value.values():
                yield from images_on_gpu_nodes(each, kind)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from images_on_gpu_nodes(each, kind)


def _requests_gpus(container: Mapping[str, Any]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(str(each).startswith(NVIDIA) for each in limits)


@jsii.implements(constructs.IValidation)
class _WithinReach:
    """Reports what nodes or the function with helm can't pull.

    Args:
        applied: What applies or installs it.
        cluster: Its cluster.
        images: What nodes pull, if no pool has mirrors.
        charts: What the function with helm fetches.
    """

    def __init__(
        self, applied: Construct, cluster: ClusterRef, images: Sequence[str], charts: Sequence[str] = ()
    ) -> None:
        self._applied, self._cluster, self._images, self._charts = applied, cluster, images, charts

    def validate(self) -> list[str]:
        """Return an error for each image and chart out of reach."""
        images = self._images if self._cluster.lacks_mirrors else ()
        if not (images or self._charts) or not self._cluster.has_no_way_out:
            return []
        who = self._applied.node.path.removesuffix("/Resource")
        tail = f"as the VPC of {self._cluster.path} has no route out of it"
        mirror = "Host(registry_mirrors=...) on the pools, or use an image in ECR"
        return [f"{who}: {each} can't be pulled, {tail}; set {mirror} [GPU076]" for each in images] + [
            f"{who}: {each} can't be fetched, {tail}; copy it as gpu-constructs images lists it, and set the context "
            f"key {CHART_MIRROR} [GPU455]"
            for each in self._charts
        ]
