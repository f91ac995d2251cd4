"""AWS Load Balancer Controller: creates the load balancers that Ingresses and Services request.

Its permissions are the policy of the pinned release, restricted to the tag of one cluster.

`load_balancer_policy.json` is upstream's file, unchanged, as read on 2026-11-22. The files of other partitions differ
in their ARNs. The files of ``aws-iso`` and ``aws-iso-b`` also lack five actions that load balancers there don't have.

Source: https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/install/iam_policy.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_before, install_helm_chart, release_claim
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import LOAD_BALANCER_TAG
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_bool
from gpu_facts.versions import LOAD_BALANCER_CONTROLLER

_FILE = "load_balancer_policy.json"
# Value of upstream's conditions that require the tag of a cluster, on existing and new resources, for any cluster.
_TAGGED = "false"
_RULES_OF_GROUPS = {"ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"}
# Services without endpoints in a VPC. The controller calls them only if an annotation requests it.
_OUT_OF_REACH = ("waf-regional:", "wafv2:", "shield:", "cognito-idp:")
_NAMESPACE = KUBE_SYSTEM
_SERVICE_ACCOUNT = LOAD_BALANCER_CONTROLLER.name
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}")


def load_balancer_statements(*, cluster_name: str, vpc_id: str, partition: str, isolated: bool) -> list[dict[str, Any]]:
    """Return the statements. Where upstream requires the tag of any cluster, they require the tag of this cluster.

    Args:
        cluster_name: Name of the cluster, which is in the tag of all resources that the controller creates.
        vpc_id: Id of the cluster's VPC. The controller may change security group rules only in this VPC.
        partition: AWS partition.
        isolated: Leave out the services that have no endpoint in a VPC.
    """
    upstream = json.loads(files(__package__).joinpath(_FILE).read_text())["Statement"]
    vpc = f"arn:{partition}:ec2:*:*:vpc/{vpc_id}"
    statements = [_in_partition(_in_vpc(_restrict_to_cluster(each, cluster_name), vpc), partition) for each in upstream]
    return [_within_reach(each) for each in statements] if isolated else statements


def _restrict_to_cluster(statement: dict[str, Any], cluster_name: str) -> dict[str, Any]:
    """Return a statement with the cluster's own tag in place of upstream's condition for any cluster."""
    condition = statement.get("Condition", {})
    null = condition.get("Null", {})
    own = {key: cluster_name for key, said in null.items() if said == _TAGGED and key.endswith(LOAD_BALANCER_TAG)}
    if not own:
        return statement
    left = {key: said for key, said in null.items() if key not in own}
    said = {**condition, "StringEquals": {**condition.get("StringEquals", {}), **own}, "Null": left}
    return {**statement, "Condition": {name: block for name, block in said.items() if block}}


def _in_vpc(statement: dict[str, Any], vpc_arn: str) -> dict[str, Any]:
    """Return a statement that allows changes of security group rules in one VPC only, as upstream recommends.

    The condition is the VPC, not the cluster's tag, because security groups of your own nodes may lack the tag. It
    allows any account, because a shared VPC belongs to another one.
    Source: https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/deploy/installation.md
    """
    if "Condition" in statement or not set(statement["Action"]) <= _RULES_OF_GROUPS:
        return statement
    return {**statement, "Condition": {"ArnLike": {"ec2:Vpc": vpc_arn}}}


def _in_partition(statement: dict[str, Any], partition: str) -> dict[str, Any]:
    resource = statement["Resource"]
    moved = [
        each.replace("arn:aws:", f"arn:{partition}:")
        for each in ([resource] if isinstance(resource, str) else resource)
    ]
    return {**statement, "Resource": moved[0] if isinstance(resource, str) else moved}


def _within_reach(statement: dict[str, Any]) -> dict[str, Any]:
    return {**statement, "Action": [each for each in statement["Action"] if not each.startswith(_OUT_OF_REACH)]}


@named_arguments
class LoadBalancerController(Construct):
    """AWS Load Balancer Controller with its permissions, through Pod Identity.

    The chart sets region and VPC, because a pod can't read the metadata of its node. The webhook for Services is off:
    it would take over every new Service, and reject all Services until its pods run. Constructs of this app that
    request a load balancer are created after the controller and deleted before it, so that no load balancer remains.
    The cluster needs the add-on ``eks-pod-identity-agent``, and nodes without GPUs for the controller.

    A Service of class ``service.k8s.aws/nlb`` still gets a Network Load Balancer. The controller finds subnets by the
    tags ``kubernetes.io/role/elb`` and ``kubernetes.io/role/internal-elb``: tag your own. An isolated VPC needs the
    endpoint ``elasticloadbalancing``, which VPCs of this library have.

    Source: https://github.com/kubernetes-sigs/aws-load-balancer-controller/tree/v3.5.0

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        vpc_id: Id of the cluster's VPC. Default: the VPC of the cluster. Required if the cluster was imported without
            it.
        isolated: Whether the VPC has no route to the internet. Then WAF, Shield and Cognito are off, which have no
            endpoint in a VPC. Default: whether the cluster's VPC has only isolated subnets.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, already has the controller, or was imported without its VPC.

    Attributes:
        chart: The Helm release. Constructs that request load balancers depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        vpc_id: str | None = None,
        isolated: bool | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        vpc = _resolve_vpc_id(who, ref, vpc_id)
        if isolated is None:
            isolated = ref.vpc is not None and not ref.vpc.private_subnets and bool(ref.vpc.isolated_subnets)
        refuse_unless_bool(who, "isolated", isolated)
        ref.claim(who, release_claim(LOAD_BALANCER_CONTROLLER.name), why="both would make every load balancer")

        stack = cdk.Stack.of(self)
        statements = load_balancer_statements(
            cluster_name=ref.name_token, vpc_id=vpc, partition=stack.partition, isolated=isolated
        )
        identity = PodIdentity(
            self,
            "Identity",
            cluster=ref,
            namespace=_NAMESPACE,
            service_account=_SERVICE_ACCOUNT,
            policies={"LoadBalancers": policy_document(statements)},
        )
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=LOAD_BALANCER_CONTROLLER,
            namespace=_NAMESPACE,
            values=controller_values(cluster_name=ref.name_token, region=stack.region, vpc_id=vpc, isolated=isolated),
            user_values=values,
        )
        self.chart.node.add_dependency(identity)
        ref.controller(LOAD_BALANCER_CONTROLLER.name).serve(apply_before(self.chart))


def controller_values(*, cluster_name: str, region: str, vpc_id: str, isolated: bool = False) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: aws/eks-charts stable/aws-load-balancer-controller 3.5.0 values.yaml
    """
    without = dict.fromkeys(("enableShield", "enableWaf", "enableWafv2"), False) if isolated else {}
    return {
        "clusterName": cluster_name,
        "region": region,
        "vpcId": vpc_id,
        "serviceAccount": {"name": _SERVICE_ACCOUNT},
        "enableServiceMutatorWebhook": False,
        # Traffic goes to pods, not to node ports, so Services need no node ports.
        "defaultTargetType": "ip",
        # A new certificate with every upgrade would fail the webhooks until the pods have read it.
        "keepTLSSecret": True,
        "podDisruptionBudget": {"maxUnavailable": 1},
        # The chart sets no requests, and the kubelet evicts pods without requests first.
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        **without,
    }


def _resolve_vpc_id(who: object, cluster: ClusterRef, given: object) -> str:
    if given is None:
        return cluster.require_vpc(who, "vpc_id").vpc_id
    if not isinstance(given, str):
        fix = "; write vpc.vpc_id" if hasattr(given, "vpc_id") else ""
        raise TypeError(f"{who}: vpc_id must be a string, got {given!r}{fix}")
    if not is_token(given) and not _VPC.fullmatch(given):
        raise ValueError(
            f"{who}: vpc_id must be an id such as 'vpc-0123456789abcdef0', got {given!r}; list yours with 'aws ec2 "
            "describe-vpcs'"
        )
    return given
