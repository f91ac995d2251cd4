"""Fields that the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.definitions import other_definition, read_version
from gpu_preflight.cluster.objects.excerpts import may_be_excerpt
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.eksctl.configs import cluster_of
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_true
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.fault import Fault, is_typo_of

_VALIDATION = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"


@rule("GPU301", "error", source=_VALIDATION)
def field_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """Field that the API server refuses.

    The object is not there, or stays as it was before: what it was for does not happen. Of a ClusterConfig eksctl makes
    nothing.

    Fix: Correct the field as the message says.
    """
    for each, fault in _faults(case):
        if fault.kind != "unknown":
            yield from _problems(each, fault, case.cluster, unknown=_is_excerpt(each, fault))


@rule("GPU302", "error", source=_VALIDATION)
def field_that_its_kind_does_not_have(case: Case) -> Iterator[Problem]:
    """Field that its kind does not have.

    kubectl, Argo CD and Flux refuse the object, eksctl its config. Who applies an object without
    validation gets it without the field.

    Fix: Write the field as the message says, or leave it out.
    """
    for each, fault in _faults(case):
        if fault.kind == "unknown":
            unknown = _is_applied_without_validation(each, case.cluster)
            yield from _problems(each, fault, case.cluster, unknown=unknown)


def _faults(case: Case) -> Iterator[tuple[Object, Fault]]:
    # The API server has accepted what a running cluster has.
    for each in (one for one in case.cluster.objects if not one.is_live):
        for fault in case.fields.of_object(each):
            yield each, fault


def _is_excerpt(each: Object, fault: Fault) -> bool:
    """Whether a file may hold a part of an object, as patches of Kustomize do, which lack what the whole has."""
    outermost = each.origin.resource is None and fault.path.count(".") < 2
    return fault.kind == "missing" and (outermost or may_be_excerpt(each))


def _is_applied_without_validation(each: Object, cluster: Cluster) -> bool:
    """Whether CDK's function applies an object without validation."""
    resource = cluster.resources.get(each.origin.resource or "")
    return resource is not None and is_true(resource.properties.get("SkipValidation"))


def _problems(each: Object, fault: Fault, cluster: Cluster, *, unknown: bool) -> Iterator[Problem]:
    other = None if _is_typo(fault) else other_definition(each, cluster)
    besides = f"; that is so in {read_version(each)}, and here {other} defines it" if other else ""
    of_eksctl = cluster_of(each, cluster.resources)
    for subject in cluster.parts_of(each) if of_eksctl is each else [of_eksctl]:
        text = f"{each.origin.path}: {fault.text}{besides}"
        yield Problem(subject, text, unknown=unknown or fault.newer or other is not None)


def _is_typo(fault: Fault) -> bool:
    """Whether a field can only be a known one with other letters, which no other version has either."""
    name = fault.path.rpartition(".")[2]
    return fault.kind == "unknown" and fault.nearest is not None and is_typo_of(name, fault.nearest)
