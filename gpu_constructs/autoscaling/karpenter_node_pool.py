"""A pool of GPU nodes that Karpenter launches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.karpenter import FeatureGate, Karpenter
from gpu_constructs.autoscaling.karpenter_manifests import ec2_node_class, node_overlays, node_pool
from gpu_constructs.autoscaling.node_pool import NodePool, place
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.gitops import delivery_of
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.nodes.host.node_tags import NodeTags
from gpu_constructs.nodes.node_role import open_to_session_manager, refuse_session_manager
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.sharing import Mig
from gpu_constructs.pools.size import Size, Static
from gpu_facts.image_releases import TAKE_WITH_BOTH
from gpu_facts.named_arguments import named_arguments
from gpu_facts.operating_systems import OperatingSystem
from gpu_facts.refusals import refuse_unless_role
from gpu_facts.versions import AMI_RELEASES

# What follows the "@" in `alias: <family>@<release>` of an EC2NodeClass.
_RELEASES: dict[OperatingSystem, re.Pattern[str]] = {
    "al2023": re.compile(r"v\d{8}|latest", re.ASCII),
    "bottlerocket": re.compile(r"v?\d+\.\d+\.\d+|latest", re.ASCII),
}


@named_arguments
class KarpenterNodePool(GpuNodes):
    """A NodePool and its EC2NodeClass for GPU nodes.

    The nodes boot a pinned image. Where EC2 counts other GPUs than the nodes advertise, a NodeOverlay tells Karpenter.
    When the pool is deleted, its nodes are drained and gone before Karpenter is.

    Args:
        cluster: Cluster the nodes join; needs a kubectl provider.
        name: Name of the objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        size: How large the pool may become: ``UpTo(gpus=8)``, or ``Static(nodes=2)`` with or without pods.
        capacity: How the instances are bought; of several ways Karpenter takes reserved instances first, then spot,
            then on-demand.
        disruption: When nodes are removed or replaced. Default: by the shape's purpose; without one, as for training;
            of a static pool one node at a time, for a new image.
        karpenter: Controller of this app. Leave it out where the cluster runs Karpenter already.
        node_role: Role of the nodes, with an access entry. Default: the role of ``karpenter``.
        subnets: Where nodes may start. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.
        ami_release: Image release, ``v20261012`` for AL2023 or ``1.66.0`` for Bottlerocket; ``latest`` replaces
            empty nodes at every release. Default: the release pinned in `gpu_facts.versions`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter or the API server would refuse the pool, or it could never launch a node.
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
        pool = NodePool.of(who, name=name, shape=shape, size=size, capacity=capacity, disruption=disruption)
        pool = _repaired(who, pool, karpenter, said=disruption is not None)
        _refuse_lost_settings(who, shape)
        _refuse_unseen_claims(who, pool, karpenter)
        role = _role(who, karpenter, node_role)
        refuse_session_manager(who, shape, None if karpenter is not None and karpenter.made_role(role) else role)
        release = _ami_release(who, shape, ami_release)
        shape.refuse_undriven(who, release, ref.stated_version, take=TAKE_WITH_BOTH[shape.os])
        network = place(self, pool, who=who, cluster=ref, subnets=subnets, security_group_ids=security_group_ids)

        self.name = name
        self.shape = shape
        self.max_nodes = pool.nodes_for_pods
        self.node_role = role
        open_to_session_manager(shape.host, role)
        self.subnets = network.subnets
        self._take_name(ref)
        self._bring_storage(ref)
        ref.serve_gpus(shape)
        overlays = node_overlays(pool)
        self._need(karpenter, pool, overlays=bool(overlays))
        runs_as = self._runs_as(karpenter, role)
        in_file = delivery_of(self) != "kubectl"
        tags = NodeTags(self, "NodeTags", name=f"{ref.name}-{name}", own=shape.tags, in_file=in_file)
        made = ec2_node_class(
            pool=pool, ami_release=release, runs_as=runs_as, network=network, tags=tags.late_of_node_class
        )
        self.node_class = apply_manifests(self, "NodeClass", cluster=ref, manifests=[made])
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[node_pool(pool)])
        # On the way down: pool, class (which waits until the nodes are gone), controller, its permissions.
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
        """Return the role of the nodes, or a profile with it where the controller cannot make one."""
        if karpenter is None or karpenter.instance_profile is None:
            return {"role": role.role_name}
        if role is karpenter.node_role:
            return {"instanceProfile": karpenter.instance_profile.ref}
        return {"instanceProfile": iam.CfnInstanceProfile(self, "NodeProfile", roles=[role.role_name]).ref}

    def _need(self, karpenter: Karpenter | None, pool: NodePool, *, overlays: bool) -> None:
        """Switch on what the pool needs of the controller, or say so where it is somebody else's."""
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
                f"the cluster's Karpenter must run with the feature gates {', '.join(gates)}, or this pool launches no "
                "node; pass karpenter to have them switched on",
            )


def _refuse_lost_settings(who: object, shape: NodeShape) -> None:
    # Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bootstrap/bottlerocketsettings.go
    if shape.os == "bottlerocket" and shape.kubelet.parallel_image_pulls is not None:
        raise ValueError(
            f"{who}: shape must leave kubelet.parallel_image_pulls out on bottlerocket, got "
            f"{shape.kubelet.parallel_image_pulls}; Karpenter drops that setting"
        )


# Families of which Karpenter 1.15 does not know what devices a node would publish.
# Source: karpenter-provider-aws v1.15.1 pkg/providers/drametadata/zz_generated_gpu_metadata.go
_WITHOUT_DEVICES = ("g7", "g7e", "p6e-gb200")


def _refuse_unseen_claims(who: object, pool: NodePool, karpenter: Karpenter | None) -> None:
    # Source: karpenter-provider-aws v1.14.1 pkg/operator/options: IGNORE_DRA_REQUESTS is true. So it is in v1.15.1
    # unless its gate is on, which is alpha.
    if not pool.shape.managed_by.by_claim or isinstance(pool.size, Static):
        return
    if karpenter is None or not karpenter.dynamic_resource_allocation:
        raise ValueError(
            f"{who}: size must be Static(nodes=2) with device_manager='dra', got {pool.size!r}; Karpenter looks at no "
            "pod that claims a device, but from 1.15 on with dynamic_resource_allocation=True"
        )
    blind = [row.name for row in pool.shape.rows if row.family in _WITHOUT_DEVICES]
    blind += ["MIG"] if isinstance(pool.shape.sharing, Mig) else []
    if blind:
        raise ValueError(
            f"{who}: size must be Static(nodes=2) with device_manager='dra' and {', '.join(blind)}, got "
            f"{pool.size!r}; Karpenter does not know what devices these nodes would have"
        )


def _repaired(who: object, pool: NodePool, karpenter: object, *, said: bool) -> NodePool:
    """Return a pool whose nodes are repaired one at a time, where Karpenter can be told so and nobody said otherwise.

    Source: https://karpenter.sh/v1.15/concepts/disruption/ (2026-11)
    """
    if not isinstance(karpenter, Karpenter):
        return pool
    if pool.disruption.bounds_repair and not karpenter.knows_unhealthy:
        raise ValueError(
            f"{who}: disruption must have no budget for 'Unhealthy', which Karpenter knows from 1.15 on, got one; make "
            "Karpenter(version='1.15.1')"
        )
    bounded = not said and karpenter.repairs and karpenter.knows_unhealthy
    return replace(pool, disruption=pool.disruption.with_repair()) if bounded else pool


def _role(who: object, karpenter: object, node_role: iam.IRole | None) -> iam.IRole:
    if karpenter is not None and not isinstance(karpenter, Karpenter):
        raise TypeError(f"{who}: karpenter must be a Karpenter, got {karpenter!r}")
    refuse_unless_role(who, "node_role", node_role)
    if node_role is not None:
        return node_role
    if karpenter is None:
        raise ValueError(
            f"{who}: node_role must be given without karpenter, got None; pass the role that the cluster's "
            "Karpenter gives to its nodes"
        )
    return karpenter.node_role


def _ami_release(who: object, shape: NodeShape, given: object) -> str:
    if shape.image is not None and given is not None:
        raise ValueError(f"{who}: ami_release must be left out where the shape has an image of its own, got {given!r}")
    pinned = AMI_RELEASES[shape.os].version
    release = pinned if given is None else given
    if not isinstance(release, str):
        raise TypeError(f"{who}: ami_release must be a string, got {given!r}")
    if not _RELEASES[shape.os].fullmatch(release):
        raise ValueError(
            f"{who}: ami_release must be 'latest' or a release as Karpenter names it for {shape.os}, "
            f"such as {pinned!r}, got {release!r}"
        )
    return release
