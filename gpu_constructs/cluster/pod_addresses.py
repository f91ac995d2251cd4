"""Where the pods of a cluster take their addresses from."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.cluster.pod_subnets import pod_subnets_of
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.subnets import PodNetwork, subnets_by_zone
from gpu_facts.refusals import refuse_unless_bool


def pod_network(
    cluster: Construct,
    vpc: ec2.IVpc,
    *,
    pod_subnets: Mapping[str, str] | None,
    prefix_delegation: bool,
    without: str | None,
) -> PodNetwork:
    """Return where pods take their addresses from.

    Args:
        cluster: The cluster.
        vpc: Its network.
        pod_subnets: Ids of subnets for pods alone, by zone.
        prefix_delegation: Whether nodes take blocks of sixteen.
        without: Why nothing of this can be said of the cluster; ``None`` where it can.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A zone or a subnet is none, or the cluster has no such thing.
    """
    who, made = PathOf(cluster), pod_subnets_of(vpc)
    refuse_unless_bool(who, "prefix_delegation", prefix_delegation)
    given = subnets_by_zone(who, "pod_subnets", pod_subnets) if pod_subnets is not None else {}
    if without is not None:
        said = {"pod_subnets": given, "prefix_delegation": prefix_delegation}
        for argument, value in said.items():
            if value:
                raise ValueError(f"{who}: {argument} must be left out {without}, got {value!r}")
    if made is not None and without is not None:
        raise ValueError(f"{who}: vpc must have no pod_block {without}, got {vpc.node.path!r}; make it without")
    if made is not None and not given:
        # EKS learns of a block that comes later after hours only.
        # Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network-tutorial.html (2026-11)
        cluster.node.add_dependency(made.association)
        given = dict(made.by_zone)
    return PodNetwork(subnets=given, prefixes=prefix_delegation)
