"""A pool of GPU nodes that Karpenter launches."""

from __future__ import annotations

import re
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.karpenter import FeatureGate, Karpenter
from gpu_constructs.autoscaling.karpenter_manifests import ec2_node_class, node_overlays, node_pool
from gpu_constructs.autoscaling.node_pool_spec import NodePoolSpec, place
from gpu_constructs.facts.versions import AMI_RELEASES, KARPENTER
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref, refuse_unless_role
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.operating_system import OperatingSystem
from gpu_constructs.pools.pool import Autoscaler

# What follows the "@" in `alias: <family>@<release>` of an EC2NodeClass.
_RELEASES: dict[OperatingSystem, re.Pattern[str]] = {
    "al2023": re.compile(r"v\d{8}|latest"),
    "bottlerocket": re.compile(r"v?\d+\.\d+\.\d+|latest"),
}


class KarpenterNodePool(Construct):
    """A NodePool and its EC2NodeClass for GPU nodes, up to a number of GPUs.

    The nodes boot a pinned image. Where EC2 counts other GPUs than the nodes advertise, a NodeOverlay tells Karpenter.
    When the pool is deleted, its nodes are drained and gone before Karpenter is.

    Args:
        cluster: Cluster the nodes join; needs a kubectl provider.
        name: Name of the objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_gpus: Most GPUs alive in the pool, in whole devices. Karpenter has no such limit of its own.
            Default: none, for a static pool.
        replicas: Nodes of a static pool, which are there with or without pods. Default: the nodes follow the pods.
        spare_nodes: Nodes that a static pool may have above ``replicas`` while one is replaced. Default: none of a
            reservation, whose instances are counted, else one.
        capacity: How the instances are bought; of several ways Karpenter takes reserved instances first, then spot,
            then on-demand.
        weight: Preference among pools that fit a pod, 1 to 100, higher first. Default: none.
        max_vcpus: Most virtual CPUs alive in the pool. Default: as many as the GPUs come with.
        max_memory_gib: Most memory alive in the pool, in GiB. Default: as much as the GPUs come with.
        disruption: When nodes are removed or replaced. Default: by the shape's purpose; without one, as for training;
            of a static pool one node at a time, for a new image.
        karpenter: Controller of this app. Leave it out where the cluster runs Karpenter already.
        node_role: Role of the nodes, with an access entry. Default: the role of ``karpenter``.
        subnets: Where nodes may start. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.
        ami_release: Image release, ``v20260714`` for AL2023 or ``1.66.0`` for Bottlerocket; ``latest`` replaces
            empty nodes at every release. Default: the release pinned in `gpu_constructs.facts.versions`.

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
        max_gpus: int | None = None,
        replicas: int | None = None,
        spare_nodes: int | None = None,
        capacity: Capacity | Sequence[Capacity] = OnDemand(),  # noqa: B008 - frozen value
        weight: int | None = None,
        max_vcpus: int | None = None,
        max_memory_gib: int | None = None,
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
        spec = NodePoolSpec(
            who=who,
            name=name,
            shape=shape,
            max_gpus=max_gpus,
            replicas=replicas,
            spare_nodes=spare_nodes,
            capacity=capacity,
            weight=weight,
            max_vcpus=max_vcpus,
            max_memory_gib=max_memory_gib,
            disruption=disruption,
        )
        _refuse_lost_settings(who, shape)
        _refuse_unseen_claims(who, spec)
        role = _role(who, karpenter, node_role)
        release = _ami_release(who, shape, ami_release)
        network = place(self, cluster=ref, spec=spec, subnets=subnets, security_group_ids=security_group_ids)

        ref.serve_gpus(shape)
        self.name = name
        self.shape = shape
        self.max_nodes = spec.max_nodes
        overlays = node_overlays(spec)
        self._need(karpenter, spec, overlays=bool(overlays))
        runs_as = self._runs_as(karpenter, role)
        made = ec2_node_class(spec=spec, ami_release=release, runs_as=runs_as, network=network, cluster_name=ref.name)
        self.node_class = apply_manifests(self, "NodeClass", cluster=ref, manifests=[made])
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[node_pool(spec)])
        # On the way down: pool, class (which waits until the nodes are gone), controller, its permissions.
        self.resource.node.add_dependency(self.node_class)
        before = [self.node_class]
        for number, overlay in enumerate(overlays):
            before.append(apply_manifests(self, f"Overlay{number + 1}", cluster=ref, manifests=[overlay]))
            self.resource.node.add_dependency(before[-1])
        if karpenter is not None:
            for each in before:
                each.node.add_dependency(karpenter.chart)

    def _runs_as(self, karpenter: Karpenter | None, role: iam.IRole) -> dict[str, str]:
        """Return the role of the nodes, or a profile with it where the controller cannot make one."""
        if karpenter is None or karpenter.instance_profile is None:
            return {"role": role.role_name}
        if role is karpenter.node_role:
            return {"instanceProfile": karpenter.instance_profile.ref}
        return {"instanceProfile": iam.CfnInstanceProfile(self, "NodeProfile", roles=[role.role_name]).ref}

    def _need(self, karpenter: Karpenter | None, spec: NodePoolSpec, *, overlays: bool) -> None:
        """Switch on what the pool needs of the controller, or say so where it is somebody else's."""
        needed: dict[FeatureGate, bool] = {
            "staticCapacity": spec.replicas is not None,
            "nodeOverlay": overlays,
            "reservedCapacity": bool(spec.reservations),
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
    if shape.operating_system == "bottlerocket" and shape.kubelet.parallel_image_pulls is not None:
        raise ValueError(
            f"{who}: shape must leave kubelet.parallel_image_pulls out on bottlerocket, got "
            f"{shape.kubelet.parallel_image_pulls}; Karpenter drops that setting"
        )


def _refuse_unseen_claims(who: object, spec: NodePoolSpec) -> None:
    # Source: karpenter-provider-aws v1.14.1 pkg/operator/options: IGNORE_DRA_REQUESTS is true
    if spec.shape.managed_by.by_claim and spec.replicas is None:
        raise ValueError(
            f"{who}: replicas must be given with device_manager='dra', got None; Karpenter {KARPENTER.version} "
            "looks at no pod that claims a device"
        )


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
    pinned = AMI_RELEASES[shape.operating_system].version
    release = pinned if given is None else given
    if not isinstance(release, str):
        raise TypeError(f"{who}: ami_release must be a string, got {given!r}")
    if not _RELEASES[shape.operating_system].fullmatch(release):
        raise ValueError(
            f"{who}: ami_release must be 'latest' or a release as Karpenter names it for {shape.operating_system}, "
            f"such as {pinned!r}, got {release!r}"
        )
    return release
