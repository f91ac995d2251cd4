"""Limit ranges: defaults that they set for containers without requests, and pods that they reject.

Source: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/limitranger/admission.go and pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, quantity, resources, show
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container, aggregate_container_amounts
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.unknown import Unknown, mapping, mappings


@dataclass(frozen=True, slots=True)
class _Range:
    """One entry of a LimitRange: ``Container`` or ``Pod``, and its amounts as they are written."""

    owner: str
    type: str
    least: Mapping[str, Any]
    most: Mapping[str, Any]
    limits: Mapping[str, Any]
    asked: Mapping[str, Any]
    ratios: Mapping[str, Any]

    def __str__(self) -> str:
        return f"LimitRange {self.owner} (type {self.type})"


def _ranges(namespace: str, cluster: Cluster, type: str) -> Iterator[_Range]:
    for each in cluster.objects_of_kind("LimitRange"):
        for entry in mappings(each.spec.get("limits")) if each.namespace == namespace else ():
            if entry.get("type") == type:
                yield _range(each.name, type, entry)


def _range(owner: str, type: str, entry: Mapping[str, Any]) -> _Range:
    least, most = mapping(entry.get("min")), mapping(entry.get("max"))
    limits = {**most, **mapping(entry.get("default"))}
    asked = {**least, **limits, **mapping(entry.get("defaultRequest"))}
    return _Range(owner, type, least, most, limits, asked, mapping(entry.get("maxLimitRequestRatio")))


def with_defaults(pod: Pod, namespace: str, cluster: Cluster) -> Pod:
    """Return a pod with the defaults of a LimitRange for containers without amounts."""
    for each in _ranges(namespace, cluster, "Container"):
        if each.limits or each.asked:
            pod = replace(
                pod,
                containers=tuple(_filled(one, each) for one in pod.containers) if pod.containers else pod.containers,
                init_containers=tuple(_filled(one, each) for one in pod.init_containers),
                likeness=f"{pod.likeness} {each.limits} {each.asked}",
            )
    return pod


def _filled(container: Container, given: _Range) -> Container:
    if isinstance(container.limits, Unknown) or isinstance(container.asked, Unknown):
        return container
    # If no request is written, the limit is the request. The API server sets this before the plugin runs.
    asked = {**given.asked, **container.limits, **container.asked}
    return replace(container, limits={**given.limits, **container.limits}, asked=asked)


def out_of_range(pod: Pod, namespace: str, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is rejected that requests less or more than a LimitRange allows."""
    for allowed in _ranges(namespace, cluster, "Container"):
        for each in pod.every_container:
            if not each.is_open:
                yield from _refusals(f"container {each.name}", allowed, each.requests, resources(each.limits))
    for allowed in _ranges(namespace, cluster, "Pod"):
        if not pod.is_open:
            yield from _refusals("the pod", allowed, _pod_requests(pod), _pod_limits(pod))


def _pod_requests(pod: Pod) -> Resources:
    """Return the requests of a pod, without the overhead of its RuntimeClass."""
    return {**pod.container_requests, **pod.whole_requests}


def _pod_limits(pod: Pod) -> Resources:
    """Return the limits of a pod: the sum of its containers' limits."""
    limits = aggregate_container_amounts(pod.containers or (), pod.init_containers, lambda each: resources(each.limits))
    return {**limits, **resources(pod.limits)}


def _refusals(who: str, allowed: _Range, asked: Resources, limits: Resources) -> Iterator[Reason]:
    for name, most in resources(allowed.most).items():
        wanted = max(asked.get(name, 0), limits.get(name, 0))
        if wanted > most:
            yield _refusal(f"{who} requests {show(name, wanted)} {name}, {allowed} allows {show(name, most)}")
        elif name not in limits:
            yield _refusal(f"{who} has no limit of {name}, and {allowed} requires one")
    for name, least in resources(allowed.least).items():
        wanted = min(asked.get(name, 0), limits.get(name, least))
        if wanted < least:
            yield _refusal(
                f"{who} requests {show(name, wanted)} {name}, {allowed} requires at least {show(name, least)}"
            )
        elif name not in asked:
            yield _refusal(f"{who} has no request of {name}, and {allowed} requires one")
    for name, ratio in allowed.ratios.items():
        # A plain number in thousandths, for any resource: 1500m means 1.5.
        thousandths = quantity("cpu", ratio)
        if thousandths is not None and not 0 < limits.get(name, 0) * 1000 <= thousandths * asked.get(name, 0):
            yield _refusal(f"{who} must have a limit of {name} that is at most {ratio} times its request ({allowed})")


def _refusal(text: str) -> Reason:
    return Reason(Answer.NO, "refused", text, rule="GPU130")
