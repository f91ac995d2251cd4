"""Amounts that the API server takes in no pod: requests above limits, huge pages alone, parts that exceed the whole.

Source: kubernetes/kubernetes v1.36.3 pkg/apis/core/validation/validation.go ``validateResourceRequirements`` and
``validatePodResourceConsistency``
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.quantities import Resources, quantity, resources, show
from gpu_facts.resources import DISK, NVIDIA
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.pod_size import is_extended

_PAGES = "hugepages-"
_OVERCOMMITTED = ("cpu", "memory", DISK)
_WHOLE = ("cpu", "memory")


def invalid_amounts(pod: Pod) -> Iterator[str]:
    """Yield which amounts of a pod, as it is let in, are refused."""
    for each in pod.every_container:
        if not each.is_open:
            yield from _of_container(each)
    if not pod.is_open:
        yield from _of_whole(pod)


def _of_container(container: Container) -> Iterator[str]:
    who, limits = f"container {container.name}", resources(container.limits)
    yield from _of_pair(who, container.requests, limits)
    # Of NVIDIA's a rule of their own tells.
    lacking = (name for name in container.requests if name not in limits and not name.startswith(NVIDIA))
    for name in lacking:
        if is_extended(name) or name.startswith(_PAGES):
            yield f"{who} must have a limit of {name} that equals its request"


def _of_pair(who: str, asked: Resources, limits: Resources) -> Iterator[str]:
    for name, limit in limits.items():
        amount = asked.get(name, 0)
        if name in _OVERCOMMITTED and amount > limit:
            yield f"{who} requests {show(name, amount)} {name} with a limit of {show(name, limit)}"
    pages = [name for name in {**limits, **asked} if name.startswith(_PAGES)]
    if pages and not any(name in asked for name in _WHOLE):
        yield f"{who} must ask for cpu or memory beside {pages[0]}"
    for name in pages:
        yield from _of_pages(who, name, asked.get(name, 0), limits.get(name))


def _of_pages(who: str, name: str, asked: int, limit: int | None) -> Iterator[str]:
    size = quantity("memory", name.removeprefix(_PAGES))
    if size and asked % size:
        yield f"{who} must ask for whole pages of {name}, got {asked} bytes"
    if limit is not None and limit != asked:
        yield f"{who} must request as much {name} as its limit"


def _of_whole(pod: Pod) -> Iterator[str]:
    limits = resources(pod.limits)
    asked = pod.whole_requests
    for name in asked:
        if name not in _WHOLE and not name.startswith(_PAGES):
            yield f"resources of a pod have no {name}; write it into a container"
    yield from _of_pair("the pod", asked, limits)
    parts = pod.container_requests
    for name, amount in asked.items():
        if parts.get(name, 0) > amount:
            yield f"its containers request {show(name, parts[name])} {name}, the pod {show(name, amount)}"
    for each in pod.containers or ():
        for name, limit in resources(each.limits).items():
            if limit > limits.get(name, limit):
                most = show(name, limits[name])
                yield f"container {each.name} has a limit of {show(name, limit)} {name}, the pod one of {most}"
