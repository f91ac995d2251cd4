"""Compute for pods without GPUs, such as CoreDNS and controllers: system nodes and their number, or EKS Auto Mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, cast

import aws_cdk as cdk
import constructs
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.nodes.ami_type import pinned_release
from gpu_constructs.nodes.desired_size import DesiredSize, NodeGroup, ScalingGroup
from gpu_constructs.nodes.gpu_nodes import make_auto_mode_role, open_to_session_manager, shared_node_role
from gpu_constructs.nodes.launch_template import NodeTags, launch_template_data
from gpu_constructs.nodes.user_data import plain_user_data
from gpu_constructs.pools.disk import Disk, node_volumes
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.kubelet import labels_of_nodes
from gpu_facts import labels
from gpu_facts.hardware.node_capacity import allocatable_without_gpus, refuse_unless_plain_type
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import add, pod_requests, quantity, resources, show
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number, words
from gpu_facts.resources import GPU
from gpu_facts.software.daemon_sets import daemon_sets_of_addon, daemon_sets_of_chart
from gpu_facts.software.model import DaemonSetSpec
from gpu_facts.software.system_pods import (
    RESOURCES,
    SystemPods,
    controller_pods,
    nodes_at_least,
    nodes_in_any_order,
    requested,
)

# Source: https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html
BuiltInPool = Literal["system", "general-purpose"]
_POOLS: tuple[BuiltInPool, ...] = ("system", "general-purpose")
_MIN_NODES = 2
_MAX_NODES = 4
_NODES = ("AWS::EKS::Nodegroup", "AWS::EKS::FargateProfile", "AWS::AutoScaling::AutoScalingGroup")
_ON_EVERY_NODE = (labels.OS, labels.ARCH)
_MAX_LISTED = 5
# Graviton families have a "g" after the generation: m7g, c8gn, t4g. Only the first family, a1, has none.
_GRAVITON = re.compile(r"[a-z]+\d+g|a1\.")
# While one of two nodes is replaced, the other one runs all pods: one each of the CNI, kube-proxy, the pod identity
# agent, the EBS driver and the monitoring agent, and two each of CoreDNS, the EBS controller and an autoscaler. One is
# left for your own controller.
_LEAST_PODS = 12
_WHY = "CoreDNS, add-ons and an autoscaler need 11 while the other node is replaced, and one is spare"


@named_arguments
@jsii.implements(constructs.IValidation)
class SystemLoad:
    """The controllers of a cluster, and the sizes of its system nodes, complete when all constructs are defined.

    Controllers of charts whose requests aren't known, and of charts that another app installs, aren't counted.

    Args:
        cluster: The cluster.
        path: Path of the construct with ``system_nodes``.
        instance_types: Types of the nodes.
        min_nodes: Min nodes as set, or ``None`` to compute them.
        max_nodes: Max nodes as set, or ``None`` to compute them.
    """

    def __init__(
        self,
        cluster: ClusterRef,
        *,
        path: str,
        instance_types: Sequence[str],
        min_nodes: int | None,
        max_nodes: int | None,
    ) -> None:
        self._cluster, self._path, self._types = cluster, path, tuple(instance_types)
        self._min, self._max = min_nodes, max_nodes

    @property
    def min_nodes(self) -> int:
        """Min nodes. They have room for all controllers, unless cluster autoscaler launches more nodes."""
        if self._min is not None:
            return self._min
        wanted = _MIN_NODES if self._grows else max(_MIN_NODES, self._enough)
        return wanted if self._max is None else min(wanted, self._max)

    @property
    def max_nodes(self) -> int:
        """Max nodes."""
        if self._max is not None:
            return self._max
        return max(_MAX_NODES, self.min_nodes, self._enough if self._grows else 0)

    def late(self, size: Literal["min_nodes", "max_nodes"]) -> int:
        """Return a size as a number that is resolved at synth."""
        return cast("int", cdk.Lazy.number(_Late(partial(getattr, self, size))))

    def validate(self) -> list[str]:
        """Return an error if some controllers stay Pending in every placement by kube-scheduler."""
        pods, free = self._pods, self._free(largest=True)
        nodes = self.max_nodes if self._grows else self.min_nodes
        argument = "max_nodes" if self._grows or self._min is None else "min_nodes"
        needed = nodes_at_least(pods, free)
        if (needed is not None and needed <= nodes) or self._runs_elsewhere:
            return []
        fix = "leave min_nodes and max_nodes out, or choose larger instance_types"
        must = f"{argument} must be at least {needed}, got {nodes}"
        if needed is None:
            fix = "choose larger instance_types"
            must = f"instance_types must be large enough for each pod, got {', '.join(self._types)}"
        return [
            f"{self._path}: system_nodes.{must}; the controllers of this app request {self._amounts(pods)}, and each "
            f"node has {' and '.join(f'{show(each, amount)} {each}' for each, amount in free.items())} for them; "
            f"{fix} [GPU481]"
        ]

    def _amounts(self, pods: Sequence[SystemPods]) -> str:
        totals = {each.name: requested([each], "cpu") for each in pods}
        largest = sorted(totals, key=lambda name: -totals[name])[:_MAX_LISTED]
        listed = ", ".join(f"{name} {show('cpu', totals[name])}" for name in largest)
        sums = [f"{show(each, requested(pods, each))} {each}" for each in RESOURCES]
        return f"{sums[0]} ({listed}{', ...' if len(totals) > _MAX_LISTED else ''}) and {sums[1]}"

    @property
    def _grows(self) -> bool:
        return self._cluster.holder(registry.CLUSTER_AUTOSCALER) is not None

    @property
    def _enough(self) -> int:
        return nodes_in_any_order(self._pods, self._free(largest=False)) or 0

    @property
    def _pods(self) -> list[SystemPods]:
        software = self._cluster.software
        found: list[SystemPods] = []
        for name, (_, values) in software.charts.items():
            found += controller_pods(name, values) or ()
        for name, configuration in software.addons.items():
            found += controller_pods(name, configuration) or ()
        return [*found, *(each for manifest in software.services for each in _workload_pods(manifest))]

    def _free(self, *, largest: bool) -> dict[str, int]:
        """Return the resources of a node for controllers, if its types are known, for the largest or smallest type."""
        ends = [allocatable_without_gpus(each)[largest] for each in self._types]
        taken = add(*(resources(each.requests) for each in self._daemon_sets() if _runs_on_every_node(each)))
        choose = max if largest else min
        known = [each for each in RESOURCES if all(each in end for end in ends)]
        return {each: max(choose(end[each] for end in ends) - taken.get(each, 0), 0) for each in known}

    def _daemon_sets(self) -> Iterator[DaemonSetSpec]:
        software = self._cluster.software
        for name, (version, values) in software.charts.items():
            yield from daemon_sets_of_chart(name, version, values) or ()
        for name, configuration in software.addons.items():
            yield from daemon_sets_of_addon(name, None, configuration) or ()

    @property
    def _runs_elsewhere(self) -> bool:
        """Whether the app has other nodes without the GPU taint: nodes of another library, or pools without it."""
        if self._cluster.software.runs_any_pod:
            return True
        others = (each for each in self._cluster.node.root.node.find_all() if cdk.CfnResource.is_cfn_resource(each))
        return any(
            getattr(each, "cfn_resource_type", None) in _NODES and not isinstance(each, (NodeGroup, ScalingGroup))
            for each in others
        )


@jsii.implements(cdk.IStableNumberProducer)
class _Late:
    """A number that the CDK reads at synth."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number

    def produce(self) -> int:
        """Return the number."""
        return self._number()


def _workload_pods(manifest: Mapping[str, Any]) -> Iterator[SystemPods]:
    """Yield the pods of a Deployment or StatefulSet, if they need a node without GPUs."""
    spec = manifest["spec"]
    pod = spec["template"]["spec"]
    wanted = pod_requests(pod)
    if not pod.get("tolerations") and GPU not in wanted:
        requests = {each: wanted.get(each, 0) for each in RESOURCES}
        yield SystemPods(manifest["metadata"]["name"], quantity("pods", spec.get("replicas", 1)) or 0, requests)


def _runs_on_every_node(daemon: DaemonSetSpec) -> bool:
    """Whether a DaemonSet selects no label that only some nodes have."""
    terms = [each.get("matchExpressions") or () for each in daemon.node_affinity]
    selects = (
        any(one["operator"] in ("In", "Exists") and one["key"] not in _ON_EVERY_NODE for one in each) for each in terms
    )
    return daemon.node_selector.keys() <= set(_ON_EVERY_NODE) and not (terms and all(selects))


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SystemNodes:
    """Nodes for the cluster's own software.

    Attributes:
        instance_types: EC2 names without a GPU in order of preference, of one CPU architecture. Each must have room for
            12 pods: ``medium`` of family t, ``large`` of most others.
        min_nodes: Min nodes. Default: two, in two zones, which Karpenter's controller needs. Without cluster
            autoscaler, which would launch more, it is the number that has room for the controllers of this app, in any
            placement by kube-scheduler. A chart whose requests aren't known isn't counted.
        max_nodes: Max nodes. If it equals ``min_nodes``, no autoscaler changes the number. Default: four, or as many as
            the controllers need.
        disk: Volume of a node.
        labels: Labels of a node.
        host: Additional settings of the machines, which run AL2023.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would reject the nodes.
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
            raise ValueError(
                f"{who}: instance_types must name at least one type, got none; write one such as 'm6i.large'"
            )
        if len(set(names)) < len(names):
            raise ValueError(f"{who}: instance_types must differ, got {names!r}; remove the duplicates")
        for name in names:
            refuse_unless_plain_type(who, "instance_types", name, least_pods=_LEAST_PODS, why=_WHY)
        if len({_is_graviton(name) for name in names}) > 1:
            raise ValueError(
                f"{who}: instance_types must share one CPU architecture, got {names!r}; keep the types of one"
            )
        if self.min_nodes is not None:
            refuse_unless_whole_number(
                who, "min_nodes", self.min_nodes, least=1, fix="raise it, because CoreDNS needs a node"
            )
        if self.max_nodes is not None:
            least = _MIN_NODES if self.min_nodes is None else self.min_nodes
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
        return "AL2023_ARM_64_STANDARD" if _is_graviton(self.instance_types[0]) else "AL2023_x86_64_STANDARD"


def _is_graviton(instance_type: str) -> bool:
    """Whether an EC2 type without a GPU has an arm64 CPU."""
    return _GRAVITON.match(instance_type) is not None


@named_arguments
class SystemNodeGroup(Construct):
    """The managed node group of `SystemNodes`.

    Args:
        cluster: Cluster that the nodes join.
        nodes: Settings of the nodes.
        subnets: Their subnets.

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
                volumes=node_volumes("al2023", nodes.disk),
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
        # In an upgrade EKS launches nodes before it drains others, so these nodes need no spare node.
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
    # If other groups are named, EKS doesn't add the cluster's own.
    return (
        {"securityGroupIds": [cluster.security_group_id, *host.security_group_ids]} if host.security_group_ids else {}
    )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class AutoMode:
    """EKS Auto Mode: AWS operates nodes, network, disks, load balancers, DNS and Karpenter of the cluster.

    Use an `AutoModeNodePool` for GPU nodes, because the built-in pools have none.

    Attributes:
        node_pools: Built-in pools that run the cluster's own software: ``system`` and ``general-purpose``.

    Raises:
        TypeError: ``node_pools`` isn't a list of names.
        ValueError: Auto Mode has no such pool.
    """

    node_pools: Sequence[BuiltInPool] = _POOLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_pools", words("auto mode", "node_pools", self.node_pools))
        for pool in self.node_pools:
            refuse_unless_choice("auto mode", "node_pools", pool, _POOLS)


def compute(scope: Construct, auto_mode: AutoMode | None) -> dict[str, Any]:
    """Return the properties of a cluster's control plane that select the operator of its nodes."""
    if auto_mode is None:
        return {"default_capacity_type": eks.DefaultCapacityType.NODEGROUP, "default_capacity": 0}
    # Without a built-in pool EKS rejects a role.
    role = make_auto_mode_role(scope, "AutoModeRole") if auto_mode.node_pools else None
    return {
        "default_capacity_type": eks.DefaultCapacityType.AUTOMODE,
        "compute": eks.ComputeConfig(
            node_pools=list(auto_mode.node_pools), node_role=cast("iam.IRole", role) if role else None
        ),
    }


def enforce_network_policies(scope: Construct, cluster: ClusterRef) -> None:
    """Enable network policies in Auto Mode.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html (2026-11)
    """
    cluster.claim(PathOf(scope), registry.NETWORK_POLICIES, why="both would filter traffic of the same pods")
    switch = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "amazon-vpc-cni", "namespace": KUBE_SYSTEM},
        "data": {"enable-network-policy-controller": "true"},
    }
    apply_manifests(scope, "NetworkPolicies", cluster=cluster, manifests=[switch])
