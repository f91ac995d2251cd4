"""The nodes without GPUs that run what keeps a cluster going: CoreDNS, controllers, autoscalers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.cluster.system_load import MIN_NODES, SystemLoad
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.nodes.ami_type import pinned_release
from gpu_constructs.nodes.host.node_tags import NodeTags
from gpu_constructs.nodes.launch_template import launch_template_data
from gpu_constructs.nodes.managed.desired_size import DesiredSize, NodeGroup
from gpu_constructs.nodes.node_role import open_to_session_manager, shared_node_role
from gpu_constructs.nodes.user_data import plain_user_data
from gpu_constructs.pools.disk import Disk, volumes_of
from gpu_constructs.pools.host.host import Host
from gpu_constructs.pools.user_labels import labels_of_nodes
from gpu_facts.hardware.plain_types import refuse_unless_plain_type
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number, words

# Graviton families have a "g" right behind the generation: m7g, c8gn, t4g. The first of them has none.
_GRAVITON = re.compile(r"[a-z]+\d+g|a1\.")
# While one of two nodes is replaced the other one runs all: a pod each of the CNI, kube-proxy, the pod identity agent,
# the EBS driver and the monitoring agent, and two each of CoreDNS, the EBS controller and an autoscaler. One is left
# for a controller of yours.
_LEAST_PODS = 12
_WHY = "CoreDNS, add-ons and an autoscaler are 11 where the other node is replaced"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SystemNodes:
    """Nodes for the cluster's own software.

    Attributes:
        instance_types: EC2 names without a GPU, first choice first, of one CPU architecture, each of a size that
            takes 12 pods: ``medium`` of family t, ``large`` of most others.
        min_nodes: Min nodes. Default: two, in two zones, which Karpenter's controller needs. Without cluster
            autoscaler, which would launch more, as many as hold the controllers that this app installs, in whatever
            order kube-scheduler places them. A chart whose requests aren't known counts as nothing.
        max_nodes: Max nodes. If it equals ``min_nodes``, no autoscaler changes the number. Default: four, or as many as
            the controllers need.
        disk: Volume of a node.
        labels: Labels of a node.
        host: What the machines get beside that; they run AL2023.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would refuse the nodes.
    """

    instance_types: Sequence[str] = ("m6i.large",)
    min_nodes: int | None = None
    max_nodes: int | None = None
    disk: Disk = field(default_factory=lambda: Disk(size_gib=50))
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    host: Host = field(default_factory=Host)

    def __post_init__(self) -> None:
        who = "system nodes"
        names = words(who, "instance_types", self.instance_types)
        object.__setattr__(self, "instance_types", names)
        if not names:
            raise ValueError(f"{who}: instance_types must name at least one type, got none; 'm6i.large' will do")
        if len(set(names)) < len(names):
            raise ValueError(f"{who}: instance_types must differ, got {names!r}")
        for name in names:
            refuse_unless_plain_type(who, "instance_types", name, least_pods=_LEAST_PODS, why=_WHY)
        if len({is_graviton(name) for name in names}) > 1:
            raise ValueError(f"{who}: instance_types must share one CPU architecture, got {names!r}")
        if self.min_nodes is not None:
            refuse_unless_whole_number(who, "min_nodes", self.min_nodes, least=1, fix="CoreDNS must run somewhere")
        if self.max_nodes is not None:
            least = MIN_NODES if self.min_nodes is None else self.min_nodes
            refuse_unless_whole_number(who, "max_nodes", self.max_nodes, least=least)
        if not isinstance(self.disk, Disk):
            raise TypeError(f"{who}: disk must be a Disk, got {self.disk!r}; write Disk(size_gib=50)")
        if not isinstance(self.host, Host):
            raise TypeError(f"{who}: host must be a Host, got {self.host!r}; write Host(session_manager=True)")
        self.host.refuse_on(who, "al2023")
        object.__setattr__(self, "labels", MappingProxyType(labels_of_nodes(who, self.labels)))

    @property
    def ami_type(self) -> str:
        """``AmiType`` of the node group."""
        return "AL2023_ARM_64_STANDARD" if is_graviton(self.instance_types[0]) else "AL2023_x86_64_STANDARD"


def is_graviton(instance_type: str) -> bool:
    """Whether an EC2 type without a GPU has an arm64 CPU."""
    return _GRAVITON.match(instance_type) is not None


@named_arguments
class SystemNodeGroup(Construct):
    """The managed node group of `SystemNodes`.

    Args:
        cluster: Cluster the nodes join.
        nodes: What they are.
        subnets: Where they start.

    Raises:
        ValueError: At synth: ``min_nodes``, or ``max_nodes`` with cluster autoscaler, is too small for the controllers
            of this app [GPU481].
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, nodes: SystemNodes, subnets: Sequence[ec2.ISubnet]
    ) -> None:
        super().__init__(scope, id)
        ref = cluster_ref(PathOf(self), cluster)
        release = pinned_release(PathOf(self), ref, "al2023", None)
        role = shared_node_role(self, ref)
        open_to_session_manager(nodes.host, role)
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=launch_template_data(
                tags=NodeTags(self, "NodeTags", name=f"{ref.name}-system"),
                volumes=volumes_of("al2023", nodes.disk),
                user_data=plain_user_data(nodes.host),
                hop_limit=nodes.host.metadata_hop_limit,
            )
            | _security_groups(ref, nodes.host),
        )
        load = SystemLoad(
            ref,
            path=self.node.path,
            instance_types=nodes.instance_types,
            min_nodes=nodes.min_nodes,
            max_nodes=nodes.max_nodes,
        )
        self.node.add_validation(load)
        # EKS launches nodes before it drains others in an upgrade, so these need no spare node.
        # Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)
        size = DesiredSize(
            self, "Size", cluster=ref, min_nodes=load.late("min_nodes"), max_nodes=load.late("max_nodes")
        )
        self.resource = NodeGroup.create(
            self,
            "Resource",
            size=size,
            cluster_name=ref.name_token,
            node_role=role,
            subnets=list(subnets),
            ami_type=nodes.ami_type,
            version=release.kubernetes_version,
            release_version=release.ami_release,
            instance_types=list(nodes.instance_types),
            launch_template={"id": template.ref, "version": template.attr_latest_version_number},
            labels=dict(nodes.labels) or None,
            scaling_config=size.scaling_config,
            update_config={"maxUnavailable": 1},
            node_repair_config={"enabled": True},
        )


def _security_groups(cluster: ClusterRef, host: Host) -> dict[str, list[str | None]]:
    # EKS leaves the cluster's own out where others are named.
    return (
        {"securityGroupIds": [cluster.security_group_id, *host.security_group_ids]} if host.security_group_ids else {}
    )
