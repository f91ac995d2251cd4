"""A pool of GPU nodes that Karpenter launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.karpenter import FeatureGate, Karpenter
from gpu_constructs.autoscaling.node_pool import Network, NodePool, label_requirement, node_taints, place
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.gitops import delivery_method
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.nodes.gpu_nodes import GpuNodes, open_to_session_manager, refuse_session_manager
from gpu_constructs.nodes.launch_template import NodeTags, block_device
from gpu_constructs.nodes.user_data import node_class_user_data
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.sharing import Mig
from gpu_constructs.pools.size import Size, Static
from gpu_facts.image_releases import TAKE_WITH_BOTH, OperatingSystem
from gpu_facts.labels import INSTANCE_TYPE, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL, OS
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_role
from gpu_facts.resources import GPU
from gpu_facts.versions import AMI_RELEASES

_AMI_FAMILY = {"al2023": "AL2023", "bottlerocket": "Bottlerocket"}
# The part after "@" in `alias: <family>@<release>` of an EC2NodeClass.
_RELEASES: dict[OperatingSystem, re.Pattern[str]] = {
    "al2023": re.compile(r"v\d{8}|latest", re.ASCII),
    "bottlerocket": re.compile(r"v?\d+\.\d+\.\d+|latest", re.ASCII),
}
# Families whose DRA devices Karpenter 1.15 has no data for.
# Source: karpenter-provider-aws v1.15.1 pkg/providers/drametadata/zz_generated_gpu_metadata.go
_WITHOUT_DEVICES = ("g7", "g7e", "p6e-gb200")


def ec2_node_class(
    *, pool: NodePool, ami_release: str, runs_as: Mapping[str, str], network: Network, tags: Any
) -> dict[str, Any]:
    """Return the EC2NodeClass. Its alias makes Karpenter boot GPU types from the NVIDIA image.

    Args:
        pool: The pool.
        ami_release: Release of the image.
        runs_as: ``role`` or ``instanceProfile`` of the nodes.
        network: Their subnets and security groups.
        tags: Tags of the resources that Karpenter launches, or a lazy value that renders them.

    Source: https://karpenter.sh/docs/concepts/nodeclasses/
    """
    shape = pool.shape
    found: dict[str, Any] = {
        **runs_as,
        **_image(shape, ami_release),
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "blockDeviceMappings": [_block_device(volume) for volume in shape.volumes],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": shape.host.metadata_hop_limit,
            "httpTokens": "required",
        },
        "tags": tags,
    }
    if shape.uses_raid0:
        found["instanceStorePolicy"] = "RAID0"
    if kubelet := shape.kubelet.config():
        found["kubelet"] = kubelet
    if user_data := node_class_user_data(shape):
        found["userData"] = user_data
    if shape.efa:
        found["networkInterfaces"] = [
            {"networkCardIndex": each.card, "deviceIndex": each.device, "interfaceType": each.kind}
            for each in shape.rows[0].efa_interfaces
        ]
    if shape.placement_group is not None:
        found["placementGroupSelector"] = {"name": shape.placement_group}
    if pool.reservations:
        found["capacityReservationSelectorTerms"] = pool.reservations
    return {
        "apiVersion": f"{KARPENTER_AWS_DOMAIN}/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool.name},
        "spec": found,
    }


def node_pool(pool: NodePool) -> dict[str, Any]:
    """Return the NodePool.

    Source: https://karpenter.sh/docs/concepts/nodepools/
    """
    nodes = {
        "nodeClassRef": {"group": KARPENTER_AWS_DOMAIN, "kind": "EC2NodeClass", "name": pool.name},
        "requirements": [*pool.requirements(), label_requirement(OS, ("linux",))],
        **node_taints(pool.shape),
        **pool.disruption.node_lifetime(),
    }
    return pool.to_manifest(labels=pool.shape.node_labels(pool.name), nodes=nodes)


def _node_overlays(pool: NodePool) -> list[dict[str, Any]]:
    """Return node overlays for types whose GPUs EC2 counts differently from their nodes.

    EC2 counts a fraction of a GPU (g6f, gr6f) as none and doesn't count shares. So Karpenter would launch no node for a
    pod, or too many.
    Source: https://karpenter.sh/docs/concepts/nodeoverlays/
    """
    if pool.shape.managed_by.by_claim:
        return []
    by_capacity: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for each in pool.shape.rows:
        offered = {GPU: 0} | pool.shape.gpu_resources(each.gpus)
        if offered != {GPU: each.ec2_gpus}:
            by_capacity.setdefault(tuple(offered.items()), []).append(each.name)
    return [
        {
            "apiVersion": f"{KARPENTER_DOMAIN}/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": pool.name if number == 0 else f"{pool.name}-{number + 1}"},
            "spec": {
                "requirements": [
                    label_requirement(NODE_POOL, (pool.object_name,)),
                    label_requirement(INSTANCE_TYPE, names),
                ],
                "capacity": {resource: str(amount) for resource, amount in capacity},
            },
        }
        for number, (capacity, names) in enumerate(by_capacity.items())
    ]


def _image(shape: NodeShape, ami_release: str) -> dict[str, Any]:
    if shape.image is None:
        return {"amiSelectorTerms": [{"alias": f"{shape.os}@{ami_release}"}]}
    return {"amiFamily": _AMI_FAMILY[shape.os], "amiSelectorTerms": [{"id": shape.image.id}]}


def _block_device(volume: Volume) -> dict[str, Any]:
    """Return a launch template's volume in the form of Karpenter."""
    mapping = block_device(volume)
    ebs = mapping["ebs"] | {"volumeSize": f"{volume.size_gib}Gi"}
    for ec2s, karpenters in (("kmsKeyId", "kmsKeyID"), ("snapshotId", "snapshotID")):
        if ec2s in ebs:
            ebs[karpenters] = ebs.pop(ec2s)
    return mapping | {"ebs": ebs}


@named_arguments
class KarpenterNodePool(GpuNodes):
    """A NodePool and its EC2NodeClass for GPU nodes.

    The nodes boot a pinned image. If EC2 counts other GPUs than the nodes advertise, a NodeOverlay corrects the number
    for Karpenter. When the pool is deleted, its nodes are drained and deleted before Karpenter.

    Args:
        cluster: Cluster that the nodes join. It needs a kubectl provider.
        name: Name of the objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes.
        size: Size of the pool: ``UpTo(gpus=8)``, or ``Static(nodes=2)`` for a fixed number.
        capacity: Purchase options of the instances. With several, Karpenter uses reserved instances first, then spot,
            then on-demand.
        disruption: Rules for the removal and replacement of nodes. Default: the rules for the shape's purpose. Without
            a purpose, the rules for training. For a static pool, one node at a time is replaced for a new image.
        karpenter: Controller of this app. Leave it out if the cluster already runs Karpenter.
        node_role: Role of the nodes, with an access entry. Default: the role of ``karpenter``.
        subnets: Subnets of the nodes. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.
        ami_release: Image release, ``v20261012`` for AL2023 or ``1.66.0`` for Bottlerocket. ``latest`` replaces empty
            nodes at every release. Default: the release pinned in `gpu_facts.versions`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter or the API server would reject the pool, or it could never launch a node.
    """

    autoscaler: Autoscaler = "karpenter"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        size: Size,
        capacity: Capacity | Sequence[Capacity] = OnDemand(),  # noqa: B008 - frozen value
        disruption: Disruption | None = None,
        karpenter: Karpenter | None = None,
        node_role: iam.IRole | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        security_group_ids: Sequence[str] | None = None,
        ami_release: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        pool = NodePool.from_arguments(who, name=name, shape=shape, size=size, capacity=capacity, disruption=disruption)
        pool = _repaired(who, pool, karpenter, said=disruption is not None)
        _refuse_lost_settings(who, shape)
        _refuse_unseen_claims(who, pool, karpenter)
        role = _role(who, karpenter, node_role)
        refuse_session_manager(who, shape, None if karpenter is not None and karpenter.made_role(role) else role)
        release = _ami_release(who, shape, ami_release)
        shape.refuse_undriven(who, release, ref.stated_version, take=TAKE_WITH_BOTH[shape.os])
        network = place(self, pool, who=who, cluster=ref, subnets=subnets, security_group_ids=security_group_ids)

        self.node_role = role
        open_to_session_manager(shape.host, role)
        self._register(ref, name=name, shape=shape, max_nodes=pool.nodes_for_pods, subnets=network.subnets)
        ref.serve_gpus(shape)
        overlays = _node_overlays(pool)
        self._need(karpenter, pool, overlays=bool(overlays))
        runs_as = self._runs_as(karpenter, role)
        in_file = delivery_method(self) != "kubectl"
        tags = NodeTags(self, "NodeTags", name=f"{ref.name}-{name}", own=shape.tags, in_file=in_file)
        made = ec2_node_class(
            pool=pool, ami_release=release, runs_as=runs_as, network=network, tags=tags.late_of_node_class
        )
        self.node_class = apply_manifests(self, "NodeClass", cluster=ref, manifests=[made])
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[node_pool(pool)])
        # Order of deletion: the pool, the class (which waits until the nodes are deleted), the controller, its
        # permissions.
        self.resource.node.add_dependency(self.node_class)
        before = [self.node_class]
        for number, overlay in enumerate(overlays):
            before.append(apply_manifests(self, f"Overlay{number + 1}", cluster=ref, manifests=[overlay]))
            self.resource.node.add_dependency(before[-1])
        if karpenter is not None:
            for each in before:
                each.node.add_dependency(karpenter.chart)
            if role is not karpenter.node_role:
                self.node_class.node.add_dependency(karpenter.allow_to_pass(role, pool=self))

    def _runs_as(self, karpenter: Karpenter | None, role: iam.IRole) -> dict[str, str]:
        """Return the role of the nodes, or a profile with it if the controller can't create one."""
        if karpenter is None or karpenter.instance_profile is None:
            return {"role": role.role_name}
        if role is karpenter.node_role:
            return {"instanceProfile": karpenter.instance_profile.ref}
        return {"instanceProfile": iam.CfnInstanceProfile(self, "NodeProfile", roles=[role.role_name]).ref}

    def _need(self, karpenter: Karpenter | None, pool: NodePool, *, overlays: bool) -> None:
        """Enable the feature gates that the pool needs, or warn if the controller isn't part of this app."""
        needed: dict[FeatureGate, bool] = {
            "staticCapacity": isinstance(pool.size, Static),
            "nodeOverlay": overlays,
            "reservedCapacity": bool(pool.reservations),
        }
        gates = [gate for gate, wanted in needed.items() if wanted]
        if karpenter is not None:
            karpenter.enable(*gates)
        elif gates:
            cdk.Annotations.of(self).add_warning_v2(
                "gpu-constructs:featureGates",
                f"the cluster's Karpenter must run with the feature gates {', '.join(gates)}, or this pool launches "
                "no node; pass karpenter to enable them",
            )


def _refuse_lost_settings(who: object, shape: NodeShape) -> None:
    # Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bootstrap/bottlerocketsettings.go
    if shape.os == "bottlerocket" and shape.kubelet.parallel_image_pulls is not None:
        raise ValueError(
            f"{who}: shape must leave kubelet.parallel_image_pulls out on bottlerocket, got "
            f"{shape.kubelet.parallel_image_pulls}; remove it, because Karpenter drops that setting"
        )


def _refuse_unseen_claims(who: object, pool: NodePool, karpenter: Karpenter | None) -> None:
    # Source: karpenter-provider-aws v1.14.1 pkg/operator/options: IGNORE_DRA_REQUESTS is true. It is also true in
    # v1.15.1 unless its feature gate is on, which is alpha.
    if not pool.shape.managed_by.by_claim or isinstance(pool.size, Static):
        return
    if karpenter is None or not karpenter.dynamic_resource_allocation:
        raise ValueError(
            f"{who}: size must be Static(nodes=2) with device_manager='dra', got {pool.size!r}; change it, or use "
            "Karpenter 1.15 with dynamic_resource_allocation=True, because otherwise Karpenter ignores pods that "
            "claim a device"
        )
    blind = [row.name for row in pool.shape.rows if row.family in _WITHOUT_DEVICES]
    blind += ["MIG"] if isinstance(pool.shape.sharing, Mig) else []
    if blind:
        raise ValueError(
            f"{who}: size must be Static(nodes=2) with device_manager='dra' and {', '.join(blind)}, got {pool.size!r}; "
            "change it, because Karpenter has no data about the devices of these nodes"
        )


def _repaired(who: object, pool: NodePool, karpenter: object, *, said: bool) -> NodePool:
    """Return a pool with one repair at a time, if Karpenter supports it and the user passed no disruption.

    Source: https://karpenter.sh/v1.15/concepts/disruption/ (2026-11)
    """
    if not isinstance(karpenter, Karpenter):
        return pool
    if pool.disruption.bounds_repair and not karpenter.knows_unhealthy:
        raise ValueError(
            f"{who}: disruption must have no budget for 'Unhealthy' before Karpenter 1.15, got one; create "
            "Karpenter(version='1.15.1')"
        )
    bounded = not said and karpenter.repairs and karpenter.knows_unhealthy
    return replace(pool, disruption=pool.disruption.with_repair()) if bounded else pool


def _role(who: object, karpenter: object, node_role: iam.IRole | None) -> iam.IRole:
    if karpenter is not None and not isinstance(karpenter, Karpenter):
        raise TypeError(f"{who}: karpenter must be a Karpenter, got {karpenter!r}; create Karpenter(stack, ...)")
    refuse_unless_role(who, "node_role", node_role)
    if node_role is not None:
        return node_role
    if karpenter is None:
        raise ValueError(
            f"{who}: node_role must be given without karpenter, got None; pass the role that the cluster's Karpenter "
            "passes to its nodes"
        )
    return karpenter.node_role


def _ami_release(who: object, shape: NodeShape, given: object) -> str:
    if shape.image is not None and given is not None:
        raise ValueError(
            f"{who}: ami_release must be left out if the shape has its own image, got {given!r}; remove one"
        )
    pinned = AMI_RELEASES[shape.os].version
    release = pinned if given is None else given
    if not isinstance(release, str):
        raise TypeError(f"{who}: ami_release must be a string, got {given!r}; write one such as {pinned!r}")
    if not _RELEASES[shape.os].fullmatch(release):
        raise ValueError(
            f"{who}: ami_release must be 'latest' or a release name of Karpenter for {shape.os}, got {release!r}; "
            f"write one such as {pinned!r}"
        )
    return release
