"""Autoscalers that AWS does not let do their work, or that have no node to run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.answer import Answer, all_of
from gpu_constructs.preflight.cloudformation import Resource
from gpu_constructs.preflight.iam import allows, associations, identity, role_of, trusted_accounts
from gpu_constructs.preflight.model import Autoscaler, Cluster, Pool
from gpu_constructs.preflight.nodes import minor
from gpu_constructs.preflight.routes import is_isolated
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.unknown import Unknown, known_number, known_text, mapping

_README = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_POLICY = "aws/karpenter-provider-aws v1.14.1 website/content/en/docs/reference/cloudformation.md"
# Without one of them no node is made.
_SCALES = {
    "cluster-autoscaler": (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:SetDesiredCapacity",
        "ec2:DescribeLaunchTemplateVersions",
    ),
    "karpenter": (
        "ec2:CreateFleet",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateTags",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeSubnets",
        "ec2:RunInstances",
    ),
}
# What Karpenter calls from a version on.
# Source: https://karpenter.sh/docs/upgrading/upgrade-guide/
_SINCE = (
    ((1, 6), "ec2:DescribeCapacityReservations"),
    ((1, 7), "iam:ListInstanceProfiles"),
    ((1, 11), "ec2:DescribePlacementGroups"),
    ((1, 12), "ec2:DescribeInstanceStatus"),
)
_NAMES = {"cluster-autoscaler": "cluster autoscaler", "karpenter": "Karpenter"}
# What Karpenter's chart lets its pods tolerate.
# Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml
_CHART_TOLERATIONS = ({"key": "CriticalAddonsOnly", "operator": "Exists"},)
# The endpoints that cluster autoscaler calls.
_ENDPOINTS = ("autoscaling", "ec2", "eks", "sts")


def _controllers(cluster: Cluster) -> Iterator[Autoscaler]:
    return (each for each in cluster.autoscalers if each.kind in _NAMES)


def _role(autoscaler: Autoscaler, cluster: Cluster) -> Resource | None:
    return role_of(identity(autoscaler, cluster), cluster.resources)


def _nobody(cluster: Cluster) -> Iterator[Problem]:
    for each in _controllers(cluster):
        space, account = each.service_account
        who = f"{_NAMES[each.kind]}, service account {space}/{account}"
        said = identity(each, cluster)
        if said is None and account and cluster.sees_software:
            answer = all_of(_may_not(role, each, cluster) for role in _node_roles(cluster))
            others = [str(one.properties.get("ServiceAccount")) for one in associations(cluster)]
            hint = f" (associations name {', '.join(others)})" if others else ""
            if answer is not Answer.NO:
                yield Problem(each.origin, f"{who}: no role is given to it{hint}", unknown=answer is not Answer.YES)
        role = role_of(said, cluster.resources)
        trusted = trusted_accounts(role) if role else ()
        if trusted and account and not any(_matches(one, f"{space}:{account}") for one in trusted):
            yield Problem(each.origin, f"{who}: its role trusts {', '.join(trusted)}")


def _matches(pattern: str, account: str) -> bool:
    return "*" in pattern or "${" in pattern or pattern == account


def _node_roles(cluster: Cluster) -> list[Any]:
    return [each.properties.get("NodeRole") for each in cluster.pools if each.kind == "managed"] or [None]


def _may_not(reference: Any, autoscaler: Autoscaler, cluster: Cluster) -> Answer:
    """Say whether a node's own role, which pods without an identity fall back to, is of no use either."""
    role = role_of(reference, cluster.resources)
    if role is None:
        return Answer.UNKNOWN
    allowed = allows(role, _SCALES[autoscaler.kind][1], cluster.resources)
    return {Answer.YES: Answer.NO, Answer.NO: Answer.YES}.get(allowed, Answer.UNKNOWN)


def _lacking(cluster: Cluster, kind: str, actions: tuple[str, ...]) -> Iterator[tuple[Autoscaler, list[str]]]:
    for each in _controllers(cluster):
        role = _role(each, cluster) if each.kind == kind else None
        if role is not None:
            lacking = [one for one in actions if allows(role, one, cluster.resources) is Answer.NO]
            if lacking:
                yield each, lacking


def _cannot_scale(cluster: Cluster) -> Iterator[Problem]:
    templated = any(each.kind == "managed" or each.launch_resource for each in cluster.pools)
    wanted = tuple(each for each in _SCALES["cluster-autoscaler"] if templated or "LaunchTemplate" not in each)
    for each, actions in _lacking(cluster, "cluster-autoscaler", wanted):
        yield Problem(each.origin, f"cluster autoscaler: its role does not allow {', '.join(actions)}")


def _cannot_launch(cluster: Cluster) -> Iterator[Problem]:
    for each, actions in _lacking(cluster, "karpenter", _SCALES["karpenter"]):
        yield Problem(each.origin, f"Karpenter: its role does not allow {', '.join(actions)}")


def _cannot_describe(cluster: Cluster) -> Iterator[Problem]:
    wanted = [
        each.name
        for each in cluster.gpu_pools
        if each.kind == "managed"
        and each.min_nodes == 0
        and (each.tags or each.taints or mapping(each.properties.get("Labels")))
    ]
    for each, _ in _lacking(cluster, "cluster-autoscaler", ("eks:DescribeNodegroup",)) if wanted else ():
        text = f"its role does not allow eks:DescribeNodegroup, which tells it about {', '.join(wanted)}"
        yield Problem(each.origin, f"cluster autoscaler: {text}")


def _outdated(cluster: Cluster) -> Iterator[Problem]:
    version = next((each.version for each in _controllers(cluster) if each.kind == "karpenter"), None)
    if version is None:
        return
    wanted = tuple(action for since, action in _SINCE if minor(version) >= since)
    for each, actions in _lacking(cluster, "karpenter", wanted):
        yield Problem(each.origin, f"Karpenter {version}: its role does not allow {', '.join(actions)}")


def _homeless(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.whole or cluster.auto_mode or cluster.resources_of("AWS::EKS::FargateProfile"):
        return
    if any(each.type == "Custom::AWSCDK-EKS-FargateProfile" for each in cluster.resources.values()):
        return
    for each in _controllers(cluster):
        charted = any(chart.origin == each.origin for chart in cluster.charts)
        pod = _with_defaults(each) if charted and each.kind == "karpenter" else dict(each.pod)
        if isinstance(pod.get("tolerations"), Unknown) or any(_takes(pod, pool) for pool in cluster.pools):
            continue
        groups = [pool.name for pool in cluster.pools if pool.is_group]
        text = (
            f"no group that always has a node takes its pods ({', '.join(groups)})" if groups else "there is no group"
        )
        yield Problem(each.origin, f"{_NAMES[each.kind]}: {text}")


def _with_defaults(autoscaler: Autoscaler) -> dict[str, Any]:
    return {**autoscaler.pod, "tolerations": autoscaler.pod.get("tolerations") or list(_CHART_TOLERATIONS)}


def _takes(pod: dict[str, Any], pool: Pool) -> bool:
    """Whether a group may have a node for the pod before any autoscaler runs."""
    scaling = mapping(pool.properties.get("ScalingConfig"))
    desired = scaling.get("DesiredSize", pool.properties.get("DesiredCapacity"))
    starts = pool.min_nodes != 0 or (desired is not None and known_number(desired) != 0)
    return pool.is_group and starts and all(answer is not Answer.NO for _, answer in untolerated(pod, pool.taints))


def _unreachable(cluster: Cluster) -> Iterator[Problem]:
    groups = [each for each in cluster.pools if each.is_group and each.subnets]
    if not cluster.whole or not groups or not all(is_isolated(each, cluster.resources) for each in groups):
        return
    endpoints = cluster.resources_of("AWS::EC2::VPCEndpoint")
    names = [each.properties.get("ServiceName") for each in endpoints]
    texts = [known_text(each) or getattr(each, "expression", "") for each in names]
    missing = [each for each in _ENDPOINTS if not any(text.endswith((f".{each}", f".{each}-fips")) for text in texts)]
    for each in _controllers(cluster):
        if missing and each.kind == "cluster-autoscaler" and all("}." in text or "$" not in text for text in texts):
            text = f"nothing leads out of the subnets, and the VPC has no endpoint for {', '.join(missing)}"
            yield Problem(each.origin, f"cluster autoscaler: {text}")


RULES = (
    Rule(
        id="GPU154",
        severity="error",
        title="Autoscaler without permissions of its own",
        why="Its first call to AWS is denied, and no node is ever made.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html",
        fix="Associate a role with its service account by EKS Pod Identity, or annotate the account with one for IRSA.",
        causes=("F4",),
        check=_nobody,
    ),
    Rule(
        id="GPU156",
        severity="error",
        title="Cluster autoscaler that may not scale",
        why="Without these actions it does not start, or plans a node and cannot ask for it.",
        source=_README,
        fix="Allow the actions in the policy of its role.",
        causes=("F4",),
        check=_cannot_scale,
    ),
    Rule(
        id="GPU169",
        severity="warning",
        title="Cluster autoscaler that cannot read node groups",
        why="Of an empty managed group it then knows neither labels nor taints nor declared resources.",
        source=_README,
        fix="Allow eks:DescribeNodegroup in the policy of its role.",
        causes=("F5",),
        check=_cannot_describe,
    ),
    Rule(
        id="GPU170",
        severity="error",
        title="Autoscaler without a node to run on",
        why="An autoscaler cannot make the node that it would itself run on, so nothing ever starts.",
        source="https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/",
        fix="Keep a managed node group of at least one node whose taints its pods tolerate, or a Fargate profile.",
        causes=("F1", "G13"),
        check=_homeless,
    ),
    Rule(
        id="GPU194",
        severity="error",
        title="Karpenter that may not launch instances",
        why="Without these actions the controller does not start, or its launches are denied.",
        source=_POLICY,
        fix="Attach the policies of Karpenter's own CloudFormation template for that version.",
        causes=("P062",),
        check=_cannot_launch,
    ),
    Rule(
        id="GPU196",
        severity="warning",
        title="Policy older than Karpenter",
        why="Newer versions make calls that the policy of an older one does not allow; node classes then stay unready.",
        source="https://karpenter.sh/docs/upgrading/upgrade-guide/",
        fix="Attach the policies of Karpenter's own CloudFormation template for that version.",
        causes=("P062",),
        check=_outdated,
    ),
    Rule(
        id="GPU198",
        severity="error",
        title="Subnets from which cluster autoscaler reaches no AWS API",
        why="Its calls time out, and it neither reads nor resizes a group.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html",
        fix="Add interface endpoints for autoscaling, ec2, eks and sts, or a NAT gateway.",
        causes=("F23",),
        check=_unreachable,
    ),
)
