"""A model, however it reaches a pod, and the pod with it."""

from __future__ import annotations

from typing import get_args

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.models.bringing import Brought, Place
from gpu_constructs.workloads.models.copied_model import CopiedModel
from gpu_constructs.workloads.models.hub_model import HubModel
from gpu_constructs.workloads.models.image_model import ImageModel
from gpu_constructs.workloads.models.mounted_model import MountedModel
from gpu_constructs.workloads.models.streamed_model import StreamedModel
from gpu_constructs.workloads.parts.image_mount import ImageMount
from gpu_facts.versions import WITH_IMAGE_VOLUMES

Model = CopiedModel | MountedModel | StreamedModel | ImageModel | HubModel
_KINDS = ", ".join(each.__name__ for each in get_args(Model))


def with_model(place: Place, model: Model | None) -> Brought:
    """Return a pod with its model, if it has one.

    Raises:
        TypeError: It is no model.
        ValueError: The pod cannot have it.
    """
    if model is None:
        return Brought(pod=place.pod)
    if not isinstance(model, Model):
        raise TypeError(f"{place.who}: model must be one of {_KINDS}, got {model!r}")
    return model.bring(place)


def refuse_early_image_volumes(who: object, pod: GpuPod, cluster: ClusterRef, given: str | None) -> None:
    """Refuse images as volumes on a cluster whose API server drops them, and the mounts with them, in silence.

    Args:
        who: Who asks.
        pod: The pod.
        cluster: Its cluster.
        given: Version of a cluster that states none.

    Raises:
        ValueError: The version is too old, or is not known.
    """
    if not any(isinstance(each, ImageMount) for each in pod.every_mount):
        return
    version = cluster.kubernetes_version(given, who=who)
    if tuple(map(int, version.split("."))) < WITH_IMAGE_VOLUMES:
        least = ".".join(map(str, WITH_IMAGE_VOLUMES))
        raise ValueError(
            f"{who}: cluster must have Kubernetes {least} or later for an image as a volume, got {version!r}, which "
            "drops the volume and says nothing; use another model, such as CopiedModel [GPU415]"
        )
