"""The EKS add-ons of a cluster, and their permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources, registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.context import owning_stack, stack_place
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.pod_identity import policy_document, trust
from gpu_constructs.installing.registry import CsiDriver, PathOf
from gpu_constructs.storage import csi_drivers
from gpu_facts import charts
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_choice


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Addon:
    """An EKS add-on.

    Attributes:
        name: Name in the EKS API.
        id: Construct id.
        needs_nodes: Whether it stays degraded until a node runs its pods, so that CloudFormation must create it after
            them.
        service_account: Service account with the permissions of ``policy``.
        policy: AWS managed policy that the add-on needs.
        values: Configuration values.
    """

    name: str
    id: str
    needs_nodes: bool = False
    service_account: str | None = None
    policy: str | None = None
    values: Mapping[str, Any] | None = None


# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html (2026-08)
_VPC_CNI = Addon(name=charts.VPC_CNI, id="VpcCni", service_account=charts.AWS_NODE, policy="AmazonEKS_CNI_Policy")
_POD_IDENTITY_AGENT = Addon(name=charts.POD_IDENTITY_AGENT, id="PodIdentityAgent")
_EBS_CSI_DRIVER = Addon(
    name=charts.EBS_CSI_DRIVER,
    id="EbsCsiDriver",
    needs_nodes=True,
    service_account=csi_drivers.EBS_SERVICE_ACCOUNT,
    policy=csi_drivers.EBS_POLICY,
)
# A string, as in the schema of the add-on.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html (2026-11)
# The value is also set if it is off, because an add-on keeps settings that an update leaves out.
_ENFORCING = {enforced: {"enableNetworkPolicy": str(enforced).lower()} for enforced in (True, False)}
_ADDONS = (
    _VPC_CNI,
    _POD_IDENTITY_AGENT,
    Addon(name=charts.KUBE_PROXY, id="KubeProxy"),
    Addon(name=charts.COREDNS, id="CoreDns", needs_nodes=True),
    _EBS_CSI_DRIVER,
    # Its dcgm-server has no tolerations by default, so it wouldn't detect XID errors on tainted GPU nodes.
    # Source: aws/eks-node-monitoring-agent chart 1.7.0 values.yaml, templates/dcgm-daemonset.yaml
    Addon(
        name=charts.NODE_MONITORING_AGENT,
        id="NodeMonitoringAgent",
        needs_nodes=True,
        values={"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}},
    ),
)


@named_arguments
class Addons(Construct):
    """The add-ons of a cluster.

    Args:
        cluster: Cluster to install into.
        versions: Version by add-on name, e.g. ``{"vpc-cni": "v1.21.1-eksbuild.1"}``. Default: EKS' own for the
            Kubernetes version, chosen when the add-on is created and then kept.
        network_policies: Whether to enforce Kubernetes' network policies.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``versions`` names an add-on that this library doesn't install, or the cluster already has one of
            them.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        versions: Mapping[str, str] | None = None,
        network_policies: bool = False,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref, chosen = cluster_ref(who, cluster), versions or {}
        refuse_unless_addon_versions(who, "versions", versions)
        refuse_unless_bool(who, "network_policies", network_policies)
        ref.claim(who, registry.EBS_CSI_DRIVER, why="both would manage the same volumes")
        ref.claim(who, registry.POD_NETWORK, why="both would assign addresses to the same pods")
        if network_policies:
            ref.claim(who, registry.NETWORK_POLICIES, why="both would filter traffic of the same pods")
        values: dict[str, Any] = dict(_ENFORCING[network_policies])
        if ref.pod_network is not None:
            values |= ref.pod_network.values(stack_place(self).region)
        addons = [replace(each, values=values) if each is _VPC_CNI else each for each in _ADDONS]
        self._resources = {addon.name: self._add(addon, ref, chosen.get(addon.name)) for addon in addons}
        self.vpc_cni = ref.shared(owning_stack(self)).vpc_cni.get_or_make(lambda: self._resources[_VPC_CNI.name])
        self.pod_identity_agent = self._resources[_POD_IDENTITY_AGENT.name]
        for addon in _ADDONS:
            if addon.policy is not None:
                self._resources[addon.name].node.add_dependency(self.pod_identity_agent)

    def create_after(self, nodes: cdk.CfnResource) -> None:
        """Create the add-ons whose pods need nodes after ``nodes``."""
        for addon in _ADDONS:
            if addon.needs_nodes:
                self._resources[addon.name].node.add_dependency(nodes)

    def _add(self, addon: Addon, cluster: ClusterRef, version: str | None) -> eks.CfnAddon:
        role = self._role(addon, cluster)
        made = eks_resources.CfnAddon(
            self,
            addon.id,
            addon_name=addon.name,
            cluster_name=cluster.name_token,
            addon_version=version,
            configuration_values=json.dumps(addon.values) if addon.values else None,
            pod_identity_associations=(
                [{"roleArn": role.attr_arn, "serviceAccount": addon.service_account}] if role is not None else None
            ),
            # The template takes precedence over manual changes in the cluster.
            resolve_conflicts="OVERWRITE",
        )
        set_logical_id(made, cluster, "Addon", addon.name)
        cluster.software.addons[addon.name] = addon.values or {}
        if addon.name == _EBS_CSI_DRIVER.name and role is not None:
            cluster.csi_drivers[addon.name] = CsiDriver(addon=made, role=role)
        return made

    def _role(self, addon: Addon, cluster: ClusterRef) -> iam.CfnRole | None:
        if addon.policy is None or addon.service_account is None:
            return None
        shared = cluster.shared(owning_stack(self))
        ipv6 = addon.name == _VPC_CNI.name and cluster.ip_family == "ipv6"
        managed = iam.ManagedPolicy.from_aws_managed_policy_name(addon.policy).managed_policy_arn
        return iam.CfnRole(
            shared if addon.name == _VPC_CNI.name else cast("Construct", self),
            "CniRole" if addon.name == _VPC_CNI.name else f"{addon.id}Role",
            assume_role_policy_document=trust(
                self, cluster_name=cluster.name_token, namespace=KUBE_SYSTEM, service_account=addon.service_account
            ),
            managed_policy_arns=None if ipv6 else [managed],
            policies=[_ipv6_policy(stack_place(self).partition)] if ipv6 else None,
        )


def _ipv6_policy(partition: str) -> dict[str, Any]:
    """Return the permissions of the network plugin for IPv6. AWS has no managed policy for it.

    Source: aws/amazon-vpc-cni-k8s v1.23.0 docs/iam-policy.md
    """
    describe = ("InstanceTypes", "Instances", "NetworkInterfaces", "SecurityGroups", "Subnets", "Tags")
    statements: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": ["ec2:AssignIpv6Addresses", *(f"ec2:Describe{what}" for what in describe)],
            "Resource": "*",
        },
        {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": f"arn:{partition}:ec2:*:*:network-interface/*"},
    ]
    return {"policyName": "Ipv6", "policyDocument": policy_document(statements)}


def refuse_unless_addon_versions(who: object, argument: str, versions: object) -> None:
    """Reject versions of add-ons that this library doesn't install.

    Raises:
        TypeError: ``versions`` isn't a mapping of names to versions.
        ValueError: A name is unknown.
    """
    if versions is None:
        return
    if not isinstance(versions, Mapping):
        raise TypeError(
            f"{who}: {argument} must map add-on names to versions, got {versions!r}; write "
            f"{{'vpc-cni': 'v1.2.3-eksbuild.1'}}"
        )
    for name, version in versions.items():
        refuse_unless_choice(who, argument, name, (addon.name for addon in _ADDONS))
        if not isinstance(version, str) or not version:
            raise TypeError(
                f"{who}: {argument}[{name!r}] must be a version, got {version!r}; write one such as 'v1.2.3-eksbuild.1'"
            )
