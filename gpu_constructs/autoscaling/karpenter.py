"""Karpenter: launches instances that fit the pending pods, without node groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.karpenter_policies import KarpenterScope, karpenter_policies, pass_role
from gpu_constructs.installing import eks_resources, registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart, late_values, refuse_unless_chart_values
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document, string_equals
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.nodes.gpu_nodes import make_node_role
from gpu_constructs.nodes.node_termination_handler import InterruptionQueue, event
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_role
from gpu_facts.versions import KARPENTER, KARPENTER_RELEASES, KarpenterRelease, karpenter_release

FeatureGate = Literal["nodeRepair", "nodeOverlay", "reservedCapacity", "staticCapacity"]
_NAMESPACE = KUBE_SYSTEM
_SERVICE_ACCOUNT = KARPENTER.name
# Second part of the logical ids of resources that this construct creates once for a cluster.
_OWNER = KARPENTER.name
# Source: cloudformation.yaml of karpenter-provider-aws v1.14.1 (see karpenter_policies.py).
_INTERRUPTIONS = {
    "ScheduledChange": event("aws.health", "AWS Health Event"),
    "SpotInterruption": event("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": event("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChange": event("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruption": event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}


@named_arguments
class Karpenter(Construct):
    """The Karpenter controller with its permissions, interruption queue and node role.

    Its two replicas need two nodes in two zones that Karpenter didn't launch. So run it on a managed node group without
    GPUs. The cluster needs the add-on ``eks-pod-identity-agent``. For spot, the account needs the service-linked role
    of EC2 Spot.

    Source: https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/

    Args:
        cluster: Cluster to install into. It needs a kubectl provider. It must not use EKS Auto Mode, which runs its own
            Karpenter.
        node_role: Role of the nodes that Karpenter launches, with its own access entry. Default: a new role and access
            entry.
        node_repair: Replace nodes that the node monitoring agent reports as broken, even if pods run on them. It is
            alpha, and needs the add-on ``eks-node-monitoring-agent``. From version 1.15, it repairs one node of a pool
            at a time, in pools without their own `Disruption`.
        reboot_for_repair: For a GPU fault that a reboot clears, reboot the node in place instead of replacing it. It is
            alpha, needs ``node_repair``, and is available from version 1.15.
        dynamic_resource_allocation: Launch nodes for pods that claim GPUs. It is alpha, and available from version
            1.15. Without it, pools for claims are static.
        isolated: Whether the controller has no connection to IAM and the price list, for which AWS has no endpoint in a
            VPC. Then the construct creates the instance profile of the nodes, and Karpenter uses the prices in its
            image.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.
        version: Release of Karpenter, ``1.14.1`` or ``1.15.1``. Default: the oldest one that supports the cluster's
            Kubernetes version.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, already has Karpenter, or uses Auto Mode.

    Attributes:
        node_role: Role of the nodes.
        instance_profile: Profile with that role, if the controller is isolated.
        dynamic_resource_allocation: Whether it launches nodes for claimed GPUs.
        repairs: Whether it replaces broken nodes.
        knows_unhealthy: Whether budgets can limit repairs, by the reason ``Unhealthy``.
        chart: The controller's release. Constructs that use the controller depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        node_role: iam.IRole | None = None,
        node_repair: bool = False,
        reboot_for_repair: bool = False,
        dynamic_resource_allocation: bool = False,
        isolated: bool = False,
        values: Mapping[str, Any] | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_role(who, "node_role", node_role)
        refuse_unless_bool(who, "node_repair", node_repair)
        refuse_unless_bool(who, "reboot_for_repair", reboot_for_repair)
        refuse_unless_bool(who, "dynamic_resource_allocation", dynamic_resource_allocation)
        refuse_unless_bool(who, "isolated", isolated)
        refuse_unless_chart_values(who, values)
        if ref.auto_mode:
            raise ValueError(
                f"{who}: cluster must not use EKS Auto Mode, which runs its own Karpenter, got one that does; use "
                "AutoModeNodePool"
            )
        release = karpenter_release(version, ref.stated_version, who=who)
        aws_gates = {"rebootForRepair": reboot_for_repair, "draNVIDIAGPU": dynamic_resource_allocation}
        _refuse_gates(who, release, aws_gates, node_repair=node_repair)
        _refuse_beside_brought_autoscaler(who, ref)
        ref.claim(who, registry.KARPENTER, why="both are the helm release 'karpenter'")

        self.dynamic_resource_allocation = dynamic_resource_allocation
        self.repairs = node_repair
        self.knows_unhealthy = release.newer_gates
        self._gates: dict[str, bool] = {"nodeRepair": True} if node_repair else {}
        queue = InterruptionQueue(
            self, "Interruptions", rules=_INTERRUPTIONS, target_id="KarpenterInterruptionQueueTarget"
        )
        self.node_role = node_role if node_role is not None else self._make_node_role(ref)
        self.instance_profile: iam.CfnInstanceProfile | None = None
        if isolated:
            self.instance_profile = iam.CfnInstanceProfile(self, "NodeProfile", roles=[self.node_role.role_name])
            set_logical_id(self.instance_profile, ref, "NodeProfile", _OWNER)
        identity = PodIdentity(
            self,
            "Identity",
            cluster=ref,
            namespace=_NAMESPACE,
            service_account=_SERVICE_ACCOUNT,
            managed_policy_arns=self._policy_arns(ref, queue, isolated=isolated, reboots=reboot_for_repair),
        )
        self._role = identity.role
        # The CRDs are a separate release, because helm doesn't upgrade CRDs inside a chart. Helm 4 also applies those
        # when it installs the controller, so both have the same version.
        crds = install_helm_chart(self, "Crds", cluster=ref, chart=release.crds, namespace=_NAMESPACE)
        self.chart = install_helm_chart(
            self,
            "Controller",
            cluster=ref,
            chart=release.controller,
            namespace=_NAMESPACE,
            own_definitions=False,
            values=controller_values(
                cluster_name=ref.name_token,
                queue_name=queue.name,
                gates=late_values(self._gates),
                isolated=isolated,
                pod_subnets=ref.pod_network is not None and bool(ref.pod_network.subnets),
                zonal_shift=ref.zonal_shift,
                aws_gates={name: True for name, on in aws_gates.items() if on},
            ),
            user_values=values,
        )
        # They are created before the controller and deleted after it, because it needs them.
        for needed in (crds, identity, queue, *self._own_access()):
            self.chart.node.add_dependency(needed)

    def enable(self, *gates: FeatureGate) -> None:
        """Enable feature gates of the controller, for pools that need them."""
        self._gates.update(dict.fromkeys(gates, True))

    @named_call
    def allow_to_pass(self, role: iam.IRole, *, pool: Construct) -> iam.CfnRolePolicy:
        """Allow the controller to pass a pool's own role to instances. The objects of the pool depend on it."""
        # It is in the pool's stack, which may be another one, because the controller's stack must not depend on it.
        return iam.CfnRolePolicy(
            pool,
            "PassRole",
            role_name=self._role.ref,
            policy_name=cdk.Names.unique_resource_name(pool, max_length=128),
            policy_document=policy_document([pass_role(role.role_arn)]),
        )

    def _make_node_role(self, cluster: ClusterRef) -> iam.IRole:
        role = make_node_role(self, "NodeRole", cluster)
        entry = eks_resources.CfnAccessEntry(
            self, "NodeAccess", cluster_name=cluster.name_token, principal_arn=role.role_arn, type="EC2_LINUX"
        )
        # Running nodes keep their role and its access if the construct gets another id.
        set_logical_id(role.node.default_child, cluster, "NodeRole", _OWNER)
        set_logical_id(entry, cluster, "NodeAccess", _OWNER)
        return cast("iam.IRole", role)

    def made_role(self, role: iam.IRole) -> bool:
        """Return whether this construct created a role because none was given."""
        return role is self.node_role and bool(self._own_access())

    def _own_access(self) -> list[Construct]:
        entry = self.node.try_find_child("NodeAccess")
        return [cast("Construct", entry)] if entry is not None else []

    def _policy_arns(
        self, cluster: ClusterRef, queue: InterruptionQueue, *, isolated: bool, reboots: bool
    ) -> list[str]:
        stack = cdk.Stack.of(self)
        scope = KarpenterScope(
            cluster_name=cluster.name,
            partition=stack.partition,
            region=stack.region,
            account=stack.account,
            node_role_arn=self.node_role.role_arn,
            queue_arn=queue.arn,
            string_equals=lambda id, tags: string_equals(self, id, tags),
        )
        arns = []
        for name, statements in karpenter_policies(scope, isolated=isolated, reboots=reboots).items():
            policy = iam.CfnManagedPolicy(self, name, policy_document=policy_document(statements))
            # The role keeps its id. With old and new policies at once it would exceed IAM's quota of ten.
            set_logical_id(policy, cluster, "Policy", f"{_OWNER} {name}")
            arns.append(policy.ref)
        return arns


# Arguments by their feature gate. The gates exist from version 1.15.
_OF_GATES = {"rebootForRepair": "reboot_for_repair", "draNVIDIAGPU": "dynamic_resource_allocation"}


def _refuse_gates(who: object, release: KarpenterRelease, gates: Mapping[str, bool], *, node_repair: bool) -> None:
    if gates["rebootForRepair"] and not node_repair:
        raise ValueError(
            f"{who}: node_repair must be True with reboot_for_repair, got False; set it, or remove reboot_for_repair"
        )
    asked = [_OF_GATES[name] for name, on in gates.items() if on]
    if asked and not release.newer_gates:
        able = ", ".join(version for version, each in KARPENTER_RELEASES.items() if each.newer_gates)
        raise ValueError(
            f"{who}: version must be {able} with {' and '.join(asked)}, got {release.controller.version!r}; change it"
        )


def _refuse_beside_brought_autoscaler(who: object, cluster: ClusterRef) -> None:
    brought = cluster.holder(registry.CLUSTER_AUTOSCALER)
    if brought is not None and cluster.was_brought(registry.CLUSTER_AUTOSCALER):
        raise ValueError(
            f"{who}: cluster must not have a ClusterAutoscaler, because both would launch nodes for the same pod, got "
            f"{brought.node.path!r}, which add_pool created; create Karpenter before the first add_pool, so that "
            "add_pool creates KarpenterNodePools, and create node groups with ManagedNodeGroup"
        )


def controller_values(
    *,
    cluster_name: str,
    queue_name: str,
    gates: Any,
    isolated: bool = False,
    pod_subnets: bool = False,
    zonal_shift: bool = False,
    aws_gates: Mapping[str, bool] | None = None,
) -> Mapping[str, Any]:
    """Return the values of the controller's chart.

    Sources: karpenter-provider-aws v1.14.1 and v1.15.1 charts/karpenter/values.yaml
    """
    return {
        "serviceAccount": {"name": _SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster_name,
            "interruptionQueue": queue_name,
            "featureGates": gates,
            **({"isolatedVPC": True} if isolated else {}),
            # The first interface of a node then has no addresses for pods.
            **({"reservedENIs": "1"} if pod_subnets else {}),
            # Without it, Karpenter launches nodes in the zone from which the cluster was shifted.
            **({"enableZonalShift": True} if zonal_shift else {}),
            **({"awsFeatureGates": aws_gates} if aws_gates else {}),
        },
        # The chart sets no requests, and the kubelet evicts pods without requests first.
        "controller": {
            "resources": {
                "requests": {"cpu": "500m", "memory": "1Gi"},
                "limits": {"memory": "1Gi"},
            }
        },
    }
