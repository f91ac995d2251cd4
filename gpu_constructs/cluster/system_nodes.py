"""The nodes without GPUs that run what keeps a cluster going: CoreDNS, controllers, autoscalers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.facts.hardware.catalogue import catalogue
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.nodes.ami_type import pinned_release
from gpu_constructs.nodes.group_arguments import refuse_unless_initial_nodes
from gpu_constructs.nodes.launch_template import launch_template_data
from gpu_constructs.nodes.managed_node_group import scaling_config
from gpu_constructs.nodes.node_role import shared_node_role
from gpu_constructs.pools.disk import Disk, volumes_of
from gpu_constructs.refusals import refuse_unless_whole_number, words

_INSTANCE_TYPE = re.compile(r"[a-z]+\d+[a-z0-9-]*\.[a-z0-9-]+")
# Graviton families have a "g" right behind the generation: m7g, c8gn, t4g.
_GRAVITON = re.compile(r"[a-z]+\d+g")


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemNodes:
    """Nodes for the cluster's own software.

    Attributes:
        instance_types: EC2 names without a GPU, first choice first, of one CPU architecture.
        min_nodes: Least nodes. Two, in two zones, is what Karpenter's controller needs.
        max_nodes: Most nodes. Where it equals ``min_nodes`` no autoscaler moves the number.
        initial_nodes: Nodes at the first deployment, see `ManagedNodeGroup`. Default: no desired size in the
            template, but for a group whose number never moves.
        disk: Volume of a node.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would refuse the nodes.
    """

    instance_types: Sequence[str] = ("m6i.large",)
    min_nodes: int = 2
    max_nodes: int = 4
    initial_nodes: int | None = None
    disk: Disk = field(default_factory=lambda: Disk(size_gib=50))

    def __post_init__(self) -> None:
        who = "system nodes"
        names = words(who, "instance_types", self.instance_types)
        object.__setattr__(self, "instance_types", names)
        if not names:
            raise ValueError(f"{who}: instance_types must name at least one type, got none; 'm6i.large' will do")
        for name in names:
            _refuse_instance_type(who, name)
        if len({is_graviton(name) for name in names}) > 1:
            raise ValueError(f"{who}: instance_types must share one CPU architecture, got {names!r}")
        refuse_unless_whole_number(who, "min_nodes", self.min_nodes, least=1, fix="CoreDNS must run somewhere")
        refuse_unless_whole_number(who, "max_nodes", self.max_nodes, least=self.min_nodes)
        refuse_unless_initial_nodes(who, self.initial_nodes, self.min_nodes, self.max_nodes)
        if not isinstance(self.disk, Disk):
            raise TypeError(f"{who}: disk must be a Disk, got {self.disk!r}; write Disk(size_gib=50)")

    @property
    def ami_type(self) -> str:
        """``AmiType`` of the node group."""
        return "AL2023_ARM_64_STANDARD" if is_graviton(self.instance_types[0]) else "AL2023_x86_64_STANDARD"

    @property
    def scaling(self) -> dict[str, int]:
        """Sizes of the node group."""
        never_moves = self.min_nodes == self.max_nodes
        return scaling_config(self.min_nodes, self.max_nodes, self.min_nodes if never_moves else self.initial_nodes)


def is_graviton(instance_type: str) -> bool:
    """Whether an EC2 type without a GPU has an arm64 CPU."""
    return _GRAVITON.match(instance_type) is not None


def _refuse_instance_type(who: str, name: str) -> None:
    if not _INSTANCE_TYPE.fullmatch(name):
        raise ValueError(f"{who}: instance_types must be EC2 names such as 'm6i.large', got {name!r}")
    if name in catalogue():
        raise ValueError(
            f"{who}: instance_types must have no GPU, got {name!r}; an idle GPU would run CoreDNS, use 'm6i.large'"
        )


class SystemNodeGroup(Construct):
    """The managed node group of `SystemNodes`.

    Args:
        cluster: Cluster the nodes join.
        nodes: What they are.
        subnets: Where they start.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, nodes: SystemNodes, subnets: Sequence[ec2.ISubnet]
    ) -> None:
        super().__init__(scope, id)
        ref = cluster_ref(PathOf(self), cluster)
        release = pinned_release(PathOf(self), ref, "al2023", None)
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=launch_template_data(
                name=f"{ref.name}-system", volumes=volumes_of("al2023", nodes.disk)
            ),
        )
        self.resource = eks.CfnNodegroup(
            self,
            "Resource",
            cluster_name=ref.name_token,
            node_role=shared_node_role(self, ref),
            subnets=list(subnets),
            ami_type=nodes.ami_type,
            version=release.kubernetes_version,
            release_version=release.ami_release,
            instance_types=list(nodes.instance_types),
            launch_template={"id": template.ref, "version": template.attr_latest_version_number},
            scaling_config=nodes.scaling,
            update_config={"maxUnavailable": 1},
            node_repair_config={"enabled": True},
        )
