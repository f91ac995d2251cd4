"""Properties that CloudFormation refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from gpu_facts.schemas import sources
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import of_cluster
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.fault import Fault

_EKS = "AWS::EKS::"
_OF_A_CLUSTER = (
    "AWS::EKS::Addon",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::FargateProfile",
    "AWS::EKS::PodIdentityAssociation",
)
_SCHEMAS = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/resource-type-schemas.html"


@rule("GPU300", "error", source=_SCHEMAS)
def property_that_cloudformation_refuses(case: Case) -> Iterator[Problem]:
    """Property that CloudFormation refuses.

    The deployment fails and is rolled back: what the resource was for is not there.

    Fix: Correct the property as the message says.
    """
    pools = _by_resource(case.cluster)
    for each in _resources(case.cluster, pools):
        for fault in case.fields.of_resource(each):
            yield from _problems(each, fault, pools.get(each.key, []))


def _by_resource(cluster: Cluster) -> dict[str, list[Pool]]:
    """Return the pools that a resource is, or that are launched with it, by its key."""
    found: dict[str, list[Pool]] = {}
    for pool in cluster.pools:
        for each in (pool.resource, pool.launch_resource):
            if each is not None:
                found.setdefault(each.key, []).append(pool)
    return found


def _resources(cluster: Cluster, pools: Mapping[str, list[Pool]]) -> Iterator[Resource]:
    """Yield the pools, the cluster, what names it, and what stands beside them and names no cluster."""
    made = [cluster.resources[key] for key in pools if key in cluster.resources]
    made += [cluster.resource] if cluster.resource is not None else []
    files = {each.file for each in made}
    yield from made
    yield from of_cluster(cluster, *_OF_A_CLUSTER)
    others = cluster.resources_of(*_others())
    yield from (each for each in others if each.key not in pools and (each.file in files or not files))


@cache
def _others() -> tuple[str, ...]:
    """Return the types whose resources name no cluster."""
    kinds = (kind for source in sources() for kind in source.kinds)
    return tuple(kind for kind in kinds if "::" in kind and not kind.startswith(_EKS))


def _problems(resource: Resource, fault: Fault, pools: list[Pool]) -> Iterator[Problem]:
    text = f"{resource.type} {resource.path}: {fault.text}"
    # Inputs are often excerpts; CloudFormation itself says before it makes anything what a resource lacks.
    lacks = fault.kind == "missing" and "." not in fault.path
    for pool in pools:
        yield Problem(pool, f"{pool.title}: {text}", unknown=fault.newer or lacks)
    if not pools and not lacks:
        yield Problem(resource, text, unknown=fault.newer)
