"""Objects that the API server, or kubelet, refuses for the way they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_facts.quantities import MIB, quantity
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.excerpts import may_be_excerpt
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, mapping
from gpu_preflight.rules.rule import Problem, of_each_pod, rule

_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_ENDING = ("Never", "OnFailure")
# What a container needs to start at all; runc refuses less.
# Source: opencontainers/runc v1.3 libcontainer/cgroups (2026-11)
_LEAST_MEMORY = 4 * MIB
# Host, path and what follows; only the path has a rule about capitals.
# Source: distribution/reference v0.6.0 regexp.go
_HOST = regex(r"[^/.:]*[.:][^/]*/|localhost/")
_CAPITAL = regex(r"[A-Z]")


@rule("GPU380", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/")
def selector_that_does_not_match_its_pods(case: Case) -> Iterator[Problem]:
    """Selector that does not match its pods.

    The API server refuses the object: it would make pods for ever that it does not find again.

    Fix: Give the pods of the template every label that the selector names.
    """
    for each in case.cluster.of_kind(*_SELECTING):
        wanted = mapping(dig(each.spec, "selector", "matchLabels"))
        labels = dig(each.content, "spec", "template", "metadata", "labels")
        differing = [key for key, value in wanted.items() if _differs(labels, key, value)]
        if differing:
            key = differing[0]
            text = f"{_title(each)}: selects pods of label {key}={wanted[key]}, which its template does not give them"
            yield Problem(each, text, unknown=may_be_excerpt(each))


def _differs(labels: Any, key: str, value: Any) -> bool:
    if isinstance(labels, Unknown) or isinstance(value, Unknown) or is_expression(str(value)):
        return False
    have = mapping(labels).get(key)
    return not isinstance(have, Unknown) and not is_expression(str(have)) and have != value


def _title(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


@rule("GPU381", "error", source="https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template")
def job_whose_pods_restart_always(case: Case) -> Iterator[Problem]:
    """Job whose pods restart always.

    The API server refuses the job: its pods would never end.

    Fix: Set restartPolicy to Never or OnFailure.
    """
    for workload in case.cluster.workloads:
        policy = workload.pod.restart_policy
        known = not isinstance(policy, Unknown) and not is_expression(str(policy))
        ends = workload.owner.kind in ("Job", "CronJob") and workload.owner.group == "batch"
        if ends and known and policy not in _ENDING:
            got = policy or "Always, the default"
            yield Problem.of(workload, f"restartPolicy must be Never or OnFailure, got {got}")


@rule("GPU382", "error", source="https://kubernetes.io/docs/concepts/containers/images/#image-names")
def image_that_kubelet_cannot_parse(case: Case) -> Iterator[Problem]:
    """Image that kubelet cannot parse.

    The pod stays in InvalidImageName; the path of an image has small letters only.

    Fix: Write the path in small letters; the tag may have capitals.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            image = container.image
            path = _path(image) if isinstance(image, str) and not is_expression(image) and "$" not in image else ""
            if _CAPITAL.search(path):
                # A part such as REGISTRY_PLACEHOLDER may be replaced before the manifest is applied.
                filled_in = any(_FILLED_IN.fullmatch(each) for each in str(image).split("/"))
                text = f"container {container.name} has image {image}, with capitals in its path"
                yield Problem.of(workload, text, unknown=filled_in)


# Words such as IMAGE_PLACEHOLDER; a folder such as ML is a name.
_FILLED_IN = regex(r"[A-Z0-9]+(_[A-Z0-9]+)+|IMAGE|REGISTRY|REPOSITORY|PLACEHOLDER|REPLACEME|ACCOUNT")


def _path(image: str) -> str:
    name = image.partition("@")[0]
    host = _HOST.match(name)
    rest = name[host.end() :] if host else name
    return rest.rpartition(":")[0] if ":" in rest.rpartition("/")[2] else rest


@rule("GPU383", "error", source="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/")
def memory_limit_too_low_to_start(case: Case) -> Iterator[Problem]:
    """Memory limit too low to start.

    The container runtime refuses it; the suffix m means thousandths of a byte.

    Fix: Write Mi or Gi.
    """
    yield from of_each_pod(case.cluster.workloads, _low_limits)


def _low_limits(workload: Workload) -> Iterator[Problem]:
    for container in workload.containers:
        limits: Mapping[str, Any] = mapping(container.limits)
        amount = quantity("memory", limits.get("memory"))
        if amount is not None and 0 < amount < _LEAST_MEMORY:
            text = f"container {container.name} may have {limits['memory']} memory, which is {amount} bytes"
            yield Problem.of(workload, text)


@rule("GPU384", "error", source="https://kubernetes.io/docs/concepts/policy/resource-quotas/")
def quota_of_limits_of_an_extended_resource(case: Case) -> Iterator[Problem]:
    """Quota of limits of an extended resource.

    The API server refuses the ResourceQuota, so that nothing is held back: of extended resources it counts requests.

    Fix: Write requests.nvidia.com/gpu.
    """
    for each in case.cluster.of_kind("ResourceQuota"):
        for name in mapping(each.spec.get("hard")):
            resource = name.removeprefix("limits.")
            if resource != name and "/" in resource:
                text = f"ResourceQuota {each.namespace}/{each.name}: has no {name}; write requests.{resource}"
                yield Problem(each, text)
