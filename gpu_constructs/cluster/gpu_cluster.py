"""An EKS cluster for GPU nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpu_constructs.cluster.addons import Addons, refuse_unless_addon_versions
from gpu_constructs.cluster.encryption import own_log_groups, refuse_unless_log_days
from gpu_constructs.cluster.network import SERVICE_CIDR, endpoint_access, gpu_vpc, place_control_plane
from gpu_constructs.cluster.pool_kinds import (
    PoolRequest,
    install_dependencies,
    make_pool,
    refuse_other_manager,
    to_node_shape,
)
from gpu_constructs.cluster.system_nodes import (
    AutoMode,
    SystemNodeGroup,
    SystemNodes,
    compute,
    enforce_network_policies,
)
from gpu_constructs.cluster.vpc_parts import pod_network
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef, cluster_ref
from gpu_constructs.installing.context import owning_stack, stack_place
from gpu_constructs.installing.gitops import delivery_method
from gpu_constructs.installing.lambda_functions import kubectl_layer
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import (
    meet_in_vpc,
    node_subnets,
    refuse_unless_vpc,
    refuse_zones_without_pods,
    zones_at_most,
)
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.pools.capacity import Capacity
from gpu_constructs.pools.disruption import Disruption, NodeRepair
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.size import ScalingOptions, Size
from gpu_constructs.teams.access import (
    CLUSTER_ADMIN,
    access_entry,
    administrator,
    grant_cluster_access,
    principals,
    refuse_two_parts,
)
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import refuse_misspelt_region
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import (
    format_value,
    has_token,
    refuse_unless_bool,
    refuse_unless_choice,
    refuse_unless_instance,
    refuse_unless_key,
    refuse_unless_role,
)
from gpu_facts.resources import GPU
from gpu_facts.versions import DEFAULT_KUBERNETES, kubernetes_minor

if TYPE_CHECKING:
    from gpu_constructs.autoscaling import ClusterAutoscaler, Karpenter

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html (name)
_CLUSTER_NAME = re.compile(r"[0-9A-Za-z][-0-9A-Za-z_]{0,99}")
_MIN_ZONES = 2  # https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
IpFamily = Literal["ipv4", "ipv6"]
UpgradePolicy = Literal["extended", "standard"]
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_ControlPlaneScalingConfig.html (2026-11)
ControlPlaneTier = Literal["standard", "tier-xl", "tier-2xl", "tier-4xl", "tier-8xl"]
# Without cpu and memory in the list, the scheduler would ignore them.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/control-plane-configuration.html
_PACK_GPUS: dict[str, Any] = {
    "NodeResourcesFit": {
        "ScoringStrategy": {
            "Type": "MostAllocated",
            "Resources": [
                {"Name": GPU, "Weight": 100},
                {"Name": "cpu", "Weight": 1},
                {"Name": "memory", "Weight": 1},
            ],
        }
    }
}
# The default of Kubernetes.
# Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/ (NodeResourcesFitArgs)
_SPREAD_PODS: dict[str, Any] = {
    "NodeResourcesFit": {
        "ScoringStrategy": {
            "Type": "LeastAllocated",
            "Resources": [{"Name": "cpu", "Weight": 1}, {"Name": "memory", "Weight": 1}],
        }
    }
}


def _kubectl_options(scope: Construct, module: str) -> eks.KubectlProviderOptions | None:
    """Return the options of the function that applies manifests, or nothing if Argo CD or Flux applies them.

    Raises:
        ValueError: The layer of the Kubernetes version isn't installed.
    """
    if delivery_method(scope) != "kubectl":
        return None
    layer = kubectl_layer(scope, module, who=scope.node.path, of="kubernetes_version")
    return eks.KubectlProviderOptions(kubectl_layer=layer)


def _accept_equal_conditions(cluster: Construct) -> None:
    """Accept that the kubectl handler adds the same condition for each cluster of a stack."""
    stack = owning_stack(cluster)
    if any(isinstance(each, ClusterRef) for each in stack.node.children):
        cdk.Validations.of(cast("Construct", stack)).acknowledge(
            cdk.Acknowledgment(
                id="CloudFormation-Validate::W9053",
                reason="aws-cdk-lib 2.275 creates HasEcrPublic for each kubectl handler",
            )
        )


@named_arguments
class GpuCluster(Construct):
    """Control plane, system nodes, add-ons and access of a cluster for GPU nodes.

    Nodes are private. Secrets are encrypted with a key of the cluster. All log types of the control plane are enabled.
    Only access entries grant access. The deploying role has no access unless it is an administrator.

    Args:
        cluster_name: Name. It must be a literal, because IAM conditions and tags contain it. Default: the stack's name.
        kubernetes_version: Minor version, e.g. ``1.36``.
        vpc: Network with private or isolated subnets in two zones. Isolated ones need `PrivateEndpoints`. Default: a
            new one, see `gpu_vpc`.
        public_access_cidrs: CIDR blocks outside the VPC that may connect to the API endpoint, or an empty list for
            none. Default: all addresses. Clients always need credentials.
        admins: ARNs of IAM users or roles that administer the cluster.
        viewers: ARNs of users or roles that may read everything in it except Secrets.
        operators: ARNs of viewers that may also drain nodes, and delete and scale workloads in every namespace. They
            can't create workloads. They restart a Deployment by deleting its pods.
        network_policies: Whether to enforce Kubernetes' network policies, for a `Team` with ``isolate``. It uses ports
            8162 and 8163 of nodes.
        pod_subnets: Ids of separate subnets for pods, by the literal name of their zone, one for each zone of nodes.
            Default: the pod subnets of a `gpu_vpc` with ``pod_block``, otherwise the nodes' own.
        prefix_delegation: Whether nodes allocate addresses in blocks of sixteen. A node then supports more pods, if you
            set ``Kubelet(max_pods=...)``.
        system_nodes: The nodes without GPUs. Default: ``m6i.large``, two or as many as the controllers need, see
            `SystemNodes`. None in Auto Mode.
        auto_mode: Settings of EKS Auto Mode, which then operates the nodes. Default: node groups and add-ons of this
            construct.
        ip_family: Addresses of pods and services, ``ipv4`` or ``ipv6``. For ``ipv6``, your own VPC must have both.
        pack_gpus: Whether the scheduler fills the GPUs of one node before it uses the next, so that idle nodes become
            empty and are removed. EKS offers the setting, but no test has shown yet that it packs GPUs. ``False``
            switches it off again. If you leave it out, EKS keeps the cluster's setting. Default: EKS' own, off.
        role: Role of the control plane. Default: a new one with the policies that EKS requires.
        secrets_key: Key that encrypts Kubernetes secrets. Default: a new one that rotates.
        addon_versions: Version by add-on name. Default: EKS' own.
        deletion_protection: Whether EKS rejects the deletion of the cluster. Switch it off in a separate deployment
            before you destroy or replace the cluster.
        log_days: Retention of the logs of the control plane and of the function that applies manifests, a value that
            CloudWatch supports. This library's own functions keep their logs for 30 days. The logs are deleted with the
            stack.
        log_key: Key for these logs and the logs of a new network. For a key of this app, the construct grants its use
            to CloudWatch. Default: CloudWatch's own key.
        upgrade_policy: Action of EKS when standard support of the version ends. ``extended`` keeps the version for a
            year for an additional 0.50 USD an hour, and you can't leave it once it began. With ``standard`` EKS
            upgrades the control plane.
        control_plane_tier: Provisioned capacity of the control plane, ``tier-xl`` to ``tier-8xl``, billed by the hour.
            ``standard`` ends it. EKS accepts ``standard`` again only while etcd is small enough. Price:
            https://aws.amazon.com/eks/pricing/. Default: EKS' own, ``standard``.
        zonal_shift: Whether you can shift the cluster away from a zone. Then no node starts in the zone and Services
            send no traffic to pods there, so GPUs of one zone, such as reserved ones, are unavailable. ``False``
            switches it off again. Source:
            https://aws.amazon.com/blogs/containers/arc-zonal-shift-support-for-eks-auto-mode-and-karpenter/. Default:
            EKS' own, off.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would reject the cluster.

    Attributes:
        name: Its name.
        cluster: The cluster, for any construct that accepts an ``eks.ICluster``.
        vpc: Its network.
        addons: Its add-ons, or ``None`` in Auto Mode, which has them built in.
        system_nodes: The system node group, or ``None`` in Auto Mode.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str | None = None,
        kubernetes_version: str = DEFAULT_KUBERNETES,
        vpc: ec2.IVpc | None = None,
        public_access_cidrs: Sequence[str] | None = None,
        admins: Sequence[str] = (),
        viewers: Sequence[str] = (),
        operators: Sequence[str] = (),
        network_policies: bool = False,
        pod_subnets: Mapping[str, str] | None = None,
        prefix_delegation: bool = False,
        system_nodes: SystemNodes | None = None,
        auto_mode: AutoMode | None = None,
        ip_family: IpFamily = "ipv4",
        pack_gpus: bool | None = None,
        role: iam.IRole | None = None,
        secrets_key: kms.IKey | None = None,
        addon_versions: Mapping[str, str] | None = None,
        deletion_protection: bool = False,
        log_days: int = 90,
        log_key: kms.IKey | None = None,
        upgrade_policy: UpgradePolicy = "extended",
        control_plane_tier: ControlPlaneTier | None = None,
        zonal_shift: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        name = _cluster_name(who, self, cluster_name)
        refuse_misspelt_region(who, stack_place(self).region)
        minor = kubernetes_minor(kubernetes_version, who=who)
        endpoint = endpoint_access(who, public_access_cidrs)
        people = {"admins": admins, "viewers": viewers, "operators": operators}
        arns = {argument: principals(who, argument, given) for argument, given in people.items()}
        refuse_two_parts(who, **arns)
        refuse_unless_addon_versions(who, "addon_versions", addon_versions)
        _refuse_parts(who, vpc=vpc, system_nodes=system_nodes, secrets_key=secrets_key)
        refuse_unless_role(who, "role", role)
        refuse_unless_choice(who, "ip_family", ip_family, get_args(IpFamily))
        if pack_gpus is not None:
            refuse_unless_bool(who, "pack_gpus", pack_gpus)
        refuse_unless_bool(who, "network_policies", network_policies)
        refuse_unless_bool(who, "deletion_protection", deletion_protection)
        refuse_unless_log_days(who, log_days)
        refuse_unless_key(who, "log_key", log_key)
        refuse_unless_choice(who, "upgrade_policy", upgrade_policy, get_args(UpgradePolicy))
        if control_plane_tier is not None:
            refuse_unless_choice(who, "control_plane_tier", control_plane_tier, get_args(ControlPlaneTier))
        if zonal_shift is not None:
            refuse_unless_bool(who, "zonal_shift", zonal_shift)
        _refuse_beside_auto_mode(who, auto_mode, system_nodes=system_nodes, addon_versions=addon_versions)

        self.name = name
        self.vpc = vpc if vpc is not None else gpu_vpc(self, "Vpc", ip_family=ip_family, log_key=log_key)
        subnets = node_subnets(self.vpc)
        usual = _why_usual(auto_mode, ip_family)
        addresses = pod_network(
            self, self.vpc, pod_subnets=pod_subnets, prefix_delegation=prefix_delegation, without=usual
        )
        refuse_zones_without_pods(who, addresses, subnets)
        key = secrets_key if secrets_key is not None else _new_secrets_key(self)
        self.cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(kubernetes_version),
            vpc=self.vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=subnets)],
            service_ipv4_cidr=SERVICE_CIDR if ip_family == "ipv4" else None,
            ip_family=eks.IpFamily.IP_V6 if ip_family == "ipv6" else None,
            endpoint_access=endpoint,
            secrets_encryption_key=key,
            role=role,
            cluster_logging=list(eks.ClusterLoggingTypes),
            **compute(self, auto_mode),
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            kubectl_provider_options=_kubectl_options(self, minor.kubectl_layer),
        )
        meet_in_vpc(self.vpc, cluster=self.cluster)
        control_plane = cast("eks.CfnCluster", self.cluster.node.default_child)
        # Nodes of built-in pools start in the subnets of the control plane, so these subnets need a route to the
        # internet or endpoints.
        # Source: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3284
        built_in = auto_mode is not None and bool(auto_mode.node_pools)
        place_control_plane(self.cluster, self.vpc, nodes_beside=built_in)
        if pack_gpus is not None:
            control_plane.add_property_override("KubeSchedulerConfig", _PACK_GPUS if pack_gpus else _SPREAD_PODS)
        # The value is also set if it is off. Otherwise an earlier protection would stay on.
        control_plane.add_property_override("DeletionProtection", deletion_protection)
        # The default of EKS is EXTENDED. The L2 of aws-cdk-lib 2.275 has no property for it.
        control_plane.add_property_override("UpgradePolicy", {"SupportType": upgrade_policy.upper()})
        if control_plane_tier is not None:
            control_plane.add_property_override("ControlPlaneScalingConfig", {"Tier": control_plane_tier})
        if zonal_shift is not None:
            control_plane.zonal_shift_config = cast("Any", {"enabled": zonal_shift})
        _accept_equal_conditions(self)
        own_log_groups(self, self.cluster, name=name, days=log_days, key=log_key)
        ref = cluster_ref(who, self.cluster)
        for arn in arns["admins"]:
            _admit(self, ref, arn)
        grant_cluster_access(self, ref, viewers=arns["viewers"], operators=arns["operators"])
        self.addons: Addons | None = None
        self.system_nodes: SystemNodeGroup | None = None
        if auto_mode is None:
            nodes = system_nodes if system_nodes is not None else SystemNodes()
            ref.pod_network = addresses
            addons = Addons(
                self, "Addons", cluster=self.cluster, versions=addon_versions, network_policies=network_policies
            )
            self.system_nodes = SystemNodeGroup(self, "SystemNodes", cluster=self.cluster, nodes=nodes, subnets=subnets)
            addons.create_after(self.system_nodes.resource)
            ref.foundation.get_or_make(lambda: addons)
            self.addons = addons
        else:
            ref.claim(who, registry.POD_NETWORK, why="both would assign addresses to the same pods")
            if network_policies:
                enforce_network_policies(self, ref)

    @named_call
    def add_pool(
        self,
        name: str,
        shape: NodeShape | str | Sequence[str | InstanceType],
        *,
        max_nodes: int | None = None,
        size: Size | None = None,
        min_nodes: int | None = None,
        capacity: Capacity | Sequence[Capacity] | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        node_role: iam.IRole | None = None,
        ami_release: str | None = None,
        node_repair: NodeRepair | None = None,
        scaling_options: ScalingOptions | None = None,
        disruption: Disruption | None = None,
        security_group_ids: Sequence[str] | None = None,
    ) -> GpuNodes:
        """Create a pool of GPU nodes of the kind that fits this cluster, and install its dependencies.

        The kind is an `AutoModeNodePool` in Auto Mode. It is a `KarpenterNodePool` if the app created a `Karpenter` for
        this cluster before, in its stack. Otherwise it is a `ManagedNodeGroup`. The first pool that needs a dependency
        installs it, unless the cluster already has one: the shape's `DevicePlugin`, `GpuOperator` or `DraDriver`,
        `EfaDevicePlugin` for a shape with EFA, and `ClusterAutoscaler` for a managed node group. To use your own,
        create it before. You may also add your own in a later version, which takes over the one in the cluster.
        Children of this construct are ``Pool-<name>``, and each dependency by the name of its class.

        Args:
            name: Name of the pool, and value of its nodes' label ``gpu-constructs.io/pool``.
            shape: Hardware and software of its nodes, or the instance types of a default shape.
            max_nodes: Max number of nodes.
            size: Max size of a Karpenter pool, if its types differ in GPUs or it is static.
            min_nodes: Number of nodes of a managed node group that always run.
            capacity: Purchase option of the instances, or a list for a Karpenter pool. Default: on demand.
            subnets: Subnets of the nodes. Default: the private subnets of the cluster's VPC.
            node_role: Role of the nodes. Default: as in the class of the kind.
            ami_release: Release of the image. Default: as in the class of the kind.
            node_repair: Rules for replacements of broken nodes of a managed node group. Default: as in the class of the
                kind.
            scaling_options: Options of cluster autoscaler for a managed node group. Default: the autoscaler's flags.
            disruption: Rules for the removal and replacement of nodes by Karpenter. Default: the rules for the shape's
                purpose.
            security_group_ids: Security groups of Karpenter's nodes. Default: the cluster's own.

        Returns:
            The pool.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The kind doesn't have such an argument, or the pool is impossible.
        """
        who, ref = PathOf(self), cluster_ref(self, self.cluster)
        nodes = to_node_shape(who, shape)
        request = PoolRequest(
            name=name,
            shape=nodes,
            max_nodes=max_nodes,
            size=size,
            min_nodes=min_nodes,
            capacity=capacity,
            subnets=subnets,
            node_role=node_role,
            ami_release=ami_release,
            node_repair=node_repair,
            scaling_options=scaling_options,
            disruption=disruption,
            security_group_ids=security_group_ids,
        )
        refuse_other_manager(who, ref, nodes)
        pool = make_pool(self, who, ref, request)
        install_dependencies(self, ref, nodes)
        return pool

    @property
    def autoscaler(self) -> ClusterAutoscaler | Karpenter | None:
        """Component that launches nodes for pending pods, created by you or by `add_pool`.

        It is ``None`` before that, and in Auto Mode, which launches nodes itself.
        """
        ref = cluster_ref(self, self.cluster)
        found = ref.holder(registry.KARPENTER) or ref.holder(registry.CLUSTER_AUTOSCALER)
        return cast("ClusterAutoscaler | Karpenter | None", found)

    @property
    def device_managers(self) -> tuple[Construct, ...]:
        """Components that advertise GPUs and EFA interfaces, created by you or by `add_pool`."""
        ref = cluster_ref(self, self.cluster)
        found = (ref.holder(what) for what in (registry.DEVICE_MANAGER, registry.DRA_DRIVER, registry.EFA_PLUGIN))
        return tuple(each for each in found if each is not None)


def _refuse_parts(who: object, *, vpc: ec2.IVpc | None, system_nodes: object, secrets_key: object) -> None:
    if system_nodes is not None:
        given = system_nodes is AutoMode or isinstance(system_nodes, AutoMode)
        fix = "; write auto_mode=AutoMode(), which also runs pods without GPUs" if given else ""
        refuse_unless_instance(who, "system_nodes", system_nodes, SystemNodes, "SystemNodes()", fix=fix)
    refuse_unless_key(who, "secrets_key", secrets_key)
    if vpc is not None:
        refuse_unless_vpc(who, vpc)
    if vpc is not None and (zones := zones_at_most(node_subnets(vpc))) < _MIN_ZONES:
        raise ValueError(
            f"{who}: vpc must have private or isolated subnets in at least {_MIN_ZONES} zones, got {vpc.node.path!r} "
            f"with {zones}; add subnets, because EKS requires them and nodes are private"
        )


def _refuse_beside_auto_mode(who: object, auto_mode: object, **others: object) -> None:
    if auto_mode is None:
        return
    fix = "; write AutoMode()" if auto_mode is True else "; leave it out" if auto_mode is False else ""
    if auto_mode is SystemNodes or isinstance(auto_mode, SystemNodes):
        fix = "; write system_nodes=SystemNodes(...)"
    refuse_unless_instance(who, "auto_mode", auto_mode, AutoMode, "AutoMode()", fix=fix)
    for argument, value in others.items():
        if value is not None:
            raise ValueError(
                f"{who}: {argument} must be left out with auto_mode, because EKS Auto Mode provides its own, got "
                f"{format_value(value)}; remove {argument}, or remove auto_mode to run node groups instead"
            )


def _why_usual(auto_mode: object, ip_family: str) -> str | None:
    if auto_mode is not None:
        return "in Auto Mode, whose nodes have their own network plugin"
    return "with ip_family 'ipv6', which has enough addresses" if ip_family == "ipv6" else None


def _cluster_name(who: object, scope: Construct, given: object) -> str:
    stack = _stack(who, scope)
    name = stack.stack_name if given is None else given
    if any(isinstance(each, ClusterRef) and each.name == name for each in stack.node.children):
        raise ValueError(
            f"{who}: cluster_name must differ from the name of the other cluster in the stack, got {name!r}; rename one"
        )
    if not isinstance(name, str):
        raise TypeError(f"{who}: cluster_name must be a string, got {name!r}; write it as a string")
    if has_token(name):
        raise ValueError(
            f"{who}: cluster_name must be a literal, got a token; write a name, because IAM conditions and tags "
            "contain it"
        )
    if not _CLUSTER_NAME.fullmatch(name):
        raise ValueError(
            f"{who}: cluster_name must be 1 to 100 letters, digits, '-' and '_' and begin with a letter or digit, got "
            f"{name!r}; rename it"
        )
    return name


def _stack(who: object, scope: Construct) -> cdk.Stack:
    try:
        return owning_stack(scope)
    except (jsii.errors.JSIIError, RuntimeError) as error:
        raise ValueError(f"{who}: scope must be in a cdk.Stack, got one that isn't; create a stack first") from error


def _new_secrets_key(scope: Construct) -> kms.IKey:
    """Return a new key. Only a failed first deployment deletes it."""
    kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return cast("kms.IKey", kms.Key(scope, "SecretsKey", enable_key_rotation=True, removal_policy=kept))


def _admit(scope: Construct, cluster: ClusterRef, principal_arn: str) -> None:
    who = PathOf(scope)
    access_entry(who, "admins", cluster, principal_arn).add_policy(CLUSTER_ADMIN)
    cluster.claim(who, administrator(principal_arn), why="EKS allows one access entry for each")
