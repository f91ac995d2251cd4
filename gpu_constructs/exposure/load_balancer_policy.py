"""What AWS Load Balancer Controller may do: the policy of exactly the pinned release, with the tag of one cluster.

`load_balancer_policy.json` is upstream's file, unchanged, as read on 2026-11-22. The files of other partitions differ
in their ARNs; those of ``aws-iso`` and ``aws-iso-b`` also lack five actions on what load balancers there do not have.

Source: https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v3.5.0/docs/install/iam_policy.json
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from gpu_facts.labels import LOAD_BALANCER_TAG

_FILE = "load_balancer_policy.json"
# How upstream asks that something is, or becomes, tagged as a cluster's, whichever that is.
_TAGGED = "false"
_RULES_OF_GROUPS = {"ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"}
# Services without endpoints in a VPC of which the controller uses only what an annotation asks for.
_OUT_OF_REACH = ("waf-regional:", "wafv2:", "shield:", "cognito-idp:")


def load_balancer_statements(*, cluster_name: str, vpc_id: str, partition: str, isolated: bool) -> list[dict[str, Any]]:
    """Return the statements: where upstream asks for the tag of any cluster, they ask for this one's.

    Args:
        cluster_name: Name of the cluster, which stands in the tag on all that the controller makes.
        vpc_id: Id of the cluster's VPC: rules of security groups are changed in it alone.
        partition: AWS partition.
        isolated: Leave out what has no endpoint in a VPC.
    """
    upstream = json.loads(files(__package__).joinpath(_FILE).read_text())["Statement"]
    vpc = f"arn:{partition}:ec2:*:*:vpc/{vpc_id}"
    statements = [_in_partition(_in_vpc(_of_cluster(each, cluster_name), vpc), partition) for each in upstream]
    return [_within_reach(each) for each in statements] if isolated else statements


def _of_cluster(statement: dict[str, Any], cluster_name: str) -> dict[str, Any]:
    """Return a statement with the cluster's own tag where upstream takes that of any."""
    condition = statement.get("Condition", {})
    null = condition.get("Null", {})
    own = {key: cluster_name for key, said in null.items() if said == _TAGGED and key.endswith(LOAD_BALANCER_TAG)}
    if not own:
        return statement
    left = {key: said for key, said in null.items() if key not in own}
    said = {**condition, "StringEquals": {**condition.get("StringEquals", {}), **own}, "Null": left}
    return {**statement, "Condition": {name: block for name, block in said.items() if block}}


def _in_vpc(statement: dict[str, Any], vpc_arn: str) -> dict[str, Any]:
    """Return a statement that changes rules of any security group for those of a VPC, as upstream recommends.

    By the VPC and not by the cluster's tag, which security groups of your own nodes may lack. Any account, because a
    shared VPC belongs to another one.
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
