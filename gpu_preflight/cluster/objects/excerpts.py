"""Objects that are a part of one, as patches of Kustomize are: what they lack stands in what they are laid over."""

from __future__ import annotations

from typing import Any

from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, mappings

_WITH_PODS = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")


def may_be_excerpt(each: Object) -> bool:
    """Whether a file holds no more than a part of an object: nobody writes pods without a container or its image.

    What stands in a template is whole.
    """
    if each.origin.resource is not None or each.kind not in _WITH_PODS:
        return False
    return lacks_images(dig(each.spec, "template", "spec"))


def lacks_images(pod: Any) -> bool:
    """Whether a pod is written without a container, or without the image of one."""
    written = dig(pod, "containers")
    if isinstance(pod, Unknown) or isinstance(written, Unknown):
        return False
    containers = mappings(written)
    return not containers or any("image" not in container for container in containers)
