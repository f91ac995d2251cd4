"""Rules for autoscalers that lack AWS permissions or have no node to run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import (
    allows,
    associations,
    has_credentials,
    identity,
    node_role,
    resolve_role,
    trusted_accounts,
)
from gpu_preflight.cluster.network import is_isolated
from gpu_preflight.cluster.objects import is_bound, may_everywhere
from gpu_preflight.model.answer import Answer, all_yes, yes_if
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.model.taints import Toleration, untolerated
from gpu_preflight.node.autoscaler_view import option
from gpu_preflight.node.gpu_pools import nodes_never_join
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import NODES_SCALE, is_of_eksctl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import (
    Unknown,
    is_expression,
    is_true,
    known_number,
    known_text,
    mapping,
    mappings,
    may_equal,
)
from gpu_preflight.rule import Problem, rule

_README = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_POLICY = "aws/karpenter-provider-aws v1.14.1 website/content/en/docs/reference/cloudformation.md"
# Without any one of these actions, no node is created.
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
# More actions that Karpenter calls before a launch, in the releases that were read. If one is denied, the launch fails.
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/amifamily/ami.go, securitygroup/securitygroup.go,
# instancetype/instancetype.go, launchtemplate/launchtemplate.go (2026-11-24)
_READ = ((1, 14), (1, 15))
_BEFORE_A_LAUNCH = (
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
)
# Karpenter reads the cluster's endpoint at its start, and the cluster's address range for nodes with AL2023.
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/operator/operator.go,
# pkg/controllers/nodeclass/validation.go
_CLUSTER = "eks:DescribeCluster"
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/ssm/provider.go, amifamily/ami.go
_PARAMETER = "ssm:GetParameter"
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/instanceprofile/instanceprofile.go
_OWN_PROFILE = ("iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:GetInstanceProfile")
# These actions terminate instances and delete their launch templates. Without them, both remain and cost money.
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/providers/instance/instance.go,
# launchtemplate/launchtemplate.go
_ENDS = ("ec2:DescribeInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate")
# IAM has no VPC endpoint, so Karpenter with `isolatedVPC` never calls this action.
# Source: aws/karpenter-provider-aws v1.14.1 and v1.15.1 pkg/controllers/controllers.go, .../nodeclass/controller.go
_PROFILES = "iam:ListInstanceProfiles"
# Actions that Karpenter calls since a version.
# Source: https://karpenter.sh/docs/upgrading/upgrade-guide/
_SINCE = (
    ((1, 6), "ec2:DescribeCapacityReservations"),
    ((1, 7), _PROFILES),
    ((1, 11), "ec2:DescribePlacementGroups"),
    ((1, 12), "ec2:DescribeInstanceStatus"),
)
_NAMES = {"cluster-autoscaler": "cluster autoscaler", "karpenter": "Karpenter"}
# The tolerations of the pods in Karpenter's chart.
# Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/values.yaml
_CHART_TOLERATIONS = (Toleration("CriticalAddonsOnly", "Exists"),)
# The endpoints that cluster autoscaler calls.
_ENDPOINTS = ("autoscaling", "ec2", "eks", "sts")
_FLAGS = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/config/flags/flags.go"
# The project's image supports every cloud. This is its default.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/builder/builder_all.go
_DEFAULT_CLOUD = "gce"
_CLOUD, _DISCOVERY = "cloud-provider", "node-group-auto-discovery"
# The cloud providers that can scale an EKS node group.
_CLOUDS = ("aws", "externalgrpc", "clusterapi")


def _controllers(cluster: Cluster) -> Iterator[Autoscaler]:
    return (each for each in cluster.autoscalers if each.kind in _NAMES)


def _role(autoscaler: Autoscaler, cluster: Cluster) -> Resource | None:
    return resolve_role(identity(autoscaler, cluster), cluster.resources)


@rule("GPU154", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html", presumed=True)
def autoscaler_without_permissions_of_its_own(case: Case) -> Iterator[Problem]:
    """Autoscaler has no IAM role, or a role that it can't assume.

    AWS denies its first call, and no node is ever created.

    Fix: Associate a role with its service account by EKS Pod Identity, or annotate the service account with a role for
    IRSA.
    """
    cluster = case.cluster
    for each in _controllers(cluster):
        space, account = each.service_account
        who = f"{_NAMES[each.kind]}, service account {space}/{account}"
        role_reference = identity(each, cluster)
        if not has_credentials(each, cluster) and cluster.shows_software:
            answer = all_yes(_may_not(pool, each, cluster) for pool in _groups(cluster))
            others = [str(one.properties.get("ServiceAccount")) for one in associations(cluster)]
            hint = f" (associations name {', '.join(others)})" if others else ""
            if answer is not Answer.NO:
                # A ClusterConfig contains every role that eksctl creates.
                seen = others or cluster.sees_software or (cluster.resource and is_of_eksctl(cluster.resource))
                maybe = answer is not Answer.YES or not seen
                # If the node role lacks the permissions, only a role outside the input helps.
                condition = f"{_NAMES[each.kind]} has an IAM role that is not in the input"
                condition = condition if maybe and answer is Answer.YES else ""
                text = f"{who}: no Pod Identity association, role annotation or credentials grant it an IAM role{hint}"
                yield Problem(each, text, unknown=maybe, condition=condition)
        role = resolve_role(role_reference, cluster.resources)
        trusted = trusted_accounts(role) if role else ()
        if trusted and account and not any(_matches(one, f"{space}:{account}") for one in trusted):
            accounts = ", ".join(one.replace(":", "/") for one in trusted)
            text = f"{who}: its IAM role trusts only service account {accounts}"
            fix = f"Trust service account {space}/{account} in the trust policy of the role."
            yield Problem(each, text, fix)


def _matches(pattern: str, account: str) -> bool:
    return "*" in pattern or may_equal(pattern, account)


def _groups(cluster: Cluster) -> list[Pool | None]:
    return [each for each in cluster.pools if each.is_group] or [None]


def _may_not(pool: Pool | None, autoscaler: Autoscaler, cluster: Cluster) -> Answer:
    """Whether the node role, which pods without an identity use, also lacks the permissions."""
    known = pool.resource.metadata.get(NODES_SCALE) if pool and pool.resource else None
    if known is not None:
        return yes_if(not known or autoscaler.kind == "karpenter")
    role = node_role(pool, cluster.resources) if pool else None
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


@rule("GPU156", "error", source=_README)
def cluster_autoscaler_that_may_not_scale(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler isn't allowed to scale groups.

    Without these actions, it doesn't start, or plans a node but can't request it.

    Fix: Allow the actions in the policy of its role.
    """
    cluster = case.cluster
    templated = any(each.kind == "managed" or each.launch_resource for each in cluster.pools)
    wanted = tuple(each for each in _SCALES["cluster-autoscaler"] if templated or "LaunchTemplate" not in each)
    for each, actions in _lacking(cluster, "cluster-autoscaler", wanted):
        text = f"{_denial(each, actions, cluster)}, so it doesn't start or can't resize a group"
        yield Problem(each, f"cluster autoscaler: {text}")


@rule("GPU194", "error", source=_POLICY)
def karpenter_that_may_not_launch_instances(case: Case) -> Iterator[Problem]:
    """Karpenter isn't allowed to launch instances.

    Without these actions, the controller doesn't start, or AWS denies its launches.

    Fix: Attach the policies of Karpenter's own CloudFormation template for this version to the role.
    """
    cluster = case.cluster
    for each, actions in _lacking(cluster, "karpenter", _SCALES["karpenter"]):
        yield Problem(each, f"Karpenter: {_denial(each, actions, cluster)}")
    for each in cluster.autoscalers:
        unread = minor(each.version or "") not in _READ
        reads = () if option(cluster, "clusterEndpoint") else (_CLUSTER,)
        actions = _denied(each, (*_BEFORE_A_LAUNCH, *reads), cluster)
        if actions:
            yield Problem(each, f"Karpenter: {_denial(each, actions, cluster)}", unknown=unread)
        for pool in cluster.pools:
            called = dict(_calls_for_class(pool.node_class)) if pool.kind == "karpenter" and pool.node_class else {}
            if denied := _denied(each, (one for one in called if one not in reads), cluster):
                name = pool.node_class.name if pool.node_class else ""
                text = f"Karpenter can't launch nodes of EC2NodeClass {name}, because {_denial(each, denied, cluster)}"
                yield Problem.from_subject(pool, text, unknown=unread or not any(called[one] for one in denied))


def _denial(autoscaler: Autoscaler, actions: Iterable[str], cluster: Cluster) -> str:
    role = _role(autoscaler, cluster)
    return f"its IAM role{f' {role.path}' if role is not None else ''} doesn't allow {', '.join(actions)}"


def _denied(karpenter: Autoscaler, actions: Iterable[str], cluster: Cluster) -> list[str]:
    """Return the actions that the policies of Karpenter's role certainly don't allow."""
    role = _role(karpenter, cluster) if karpenter.kind == "karpenter" else None
    return [each for each in actions if role is not None and allows(role, each, cluster.resources) is Answer.NO]


def _calls_for_class(node_class: Object) -> Iterator[tuple[str, bool]]:
    """Yield the actions that Karpenter calls for nodes of an EC2NodeClass, and whether it certainly calls them."""
    terms = node_class.spec.get("amiSelectorTerms")
    if isinstance(terms, Unknown) or any("alias" in each or "ssmParameter" in each for each in mappings(terms)):
        yield _PARAMETER, not isinstance(terms, Unknown)
    written = [node_class.spec.get("amiFamily"), *(each.get("alias") for each in mappings(terms))]
    known = any(str(each).partition("@")[0].lower() == "al2023" for each in written)
    if known or any(isinstance(each, Unknown) for each in (*written, terms)):
        yield _CLUSTER, known
    if node_class.spec.get("role"):
        yield from ((each, True) for each in _OWN_PROFILE)


@rule("GPU499", "warning", source=_POLICY)
def karpenter_that_may_not_end_instances(case: Case) -> Iterator[Problem]:
    """Karpenter isn't allowed to terminate its instances.

    Nodes that are empty, expired or broken keep running and cost money.

    Fix: Attach the policies of Karpenter's own CloudFormation template for this version.
    """
    for each in case.cluster.autoscalers:
        if actions := _denied(each, _ENDS, case.cluster):
            unread = minor(each.version or "") not in _READ
            text = f"{_denial(each, actions, case.cluster)}, so empty, expired or broken nodes keep running"
            yield Problem(each, f"Karpenter: {text}", unknown=unread)


@rule("GPU169", "warning", source=_README)
def cluster_autoscaler_that_cannot_read_node_groups(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler isn't allowed to read node groups.

    For an empty managed node group, it then knows neither labels nor taints nor declared resources.

    Fix: Allow eks:DescribeNodegroup in the policy of its role.
    """
    wanted = [
        each.name
        for each in case.gpu_pools
        if each.kind == "managed"
        and each.min_nodes == 0
        and (each.tags or each.taints or mapping(each.properties.get("Labels")))
    ]
    for each, _ in _lacking(case.cluster, "cluster-autoscaler", ("eks:DescribeNodegroup",)) if wanted else ():
        text = (
            f"{_denial(each, ['eks:DescribeNodegroup'], case.cluster)}, so it can't read labels and taints of empty "
            f"node group {', '.join(wanted)} and may not scale it up from zero"
        )
        yield Problem(each, f"cluster autoscaler: {text}")


@rule("GPU196", "warning", source="https://karpenter.sh/docs/upgrading/upgrade-guide/")
def policy_older_than_karpenter(case: Case) -> Iterator[Problem]:
    """IAM policy is older than Karpenter.

    Newer Karpenter versions make calls that an older policy doesn't allow. Node classes then stay unready.

    Fix: Attach the policies of Karpenter's own CloudFormation template for this version.
    """
    cluster = case.cluster
    version = next((each.version for each in _controllers(cluster) if each.kind == "karpenter"), None)
    if version is None:
        return
    isolated = option(cluster, "isolatedVPC")
    never = (_PROFILES,) if isinstance(isolated, Unknown) or is_true(isolated) else ()
    wanted = tuple(action for since, action in _SINCE if minor(version) >= since and action not in never)
    for each, actions in _lacking(cluster, "karpenter", wanted):
        yield Problem(each, f"Karpenter {version}: {_denial(each, actions, cluster)}, so node classes may stay unready")


@rule("GPU170", "error", source="https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/")
def autoscaler_has_no_node(case: Case) -> Iterator[Problem]:
    """Autoscaler has no node to run on.

    An autoscaler can't create the node that it would run on itself, so it never starts.

    Fix: Keep a managed node group of at least one node whose taints its pods tolerate, or a Fargate profile.
    """
    cluster = case.cluster
    if not cluster.whole or cluster.auto_mode or cluster.resources_of_type("AWS::EKS::FargateProfile"):
        return
    if any(each.type == "Custom::AWSCDK-EKS-FargateProfile" for each in cluster.resources.values()):
        return
    for each in _controllers(cluster):
        charted = any(chart.origin == each.origin for chart in cluster.charts)
        given = each.pod.tolerations or (_CHART_TOLERATIONS if charted and each.kind == "karpenter" else ())
        if any(_takes(given, pool) for pool in cluster.pools):
            continue
        groups = [pool.name for pool in cluster.pools if pool.is_group]
        text = (
            f"its pods fit no node group that always has a node ({', '.join(groups)})"
            if groups
            else "its pods have no node group to run on"
        )
        yield Problem(each, f"{_NAMES[each.kind]}: {text}")


def _takes(given: tuple[Toleration, ...], pool: Pool) -> bool:
    """Whether a group may have a node for a pod with such tolerations before any autoscaler runs."""
    scaling = mapping(pool.properties.get("ScalingConfig"))
    desired = scaling.get("DesiredSize", pool.properties.get("DesiredCapacity"))
    starts = pool.min_nodes != 0 or (desired is not None and known_number(desired) != 0)
    if nodes_never_join(pool) is Answer.YES:
        return False
    return pool.is_group and starts and all(answer is not Answer.NO for _, answer in untolerated(given, pool.taints))


@rule("GPU198", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html")
def subnets_from_which_cluster_autoscaler_reaches_no_aws_api(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler can't connect to AWS APIs from its subnets.

    Its calls time out, and it neither reads nor resizes a group.

    Fix: Add the interface endpoints, or a NAT gateway.
    """
    cluster = case.cluster
    groups = [each for each in cluster.pools if each.is_group and each.subnets]
    if not cluster.whole or not groups or not all(is_isolated(each, cluster.resources) for each in groups):
        return
    endpoints = cluster.resources_of_type("AWS::EC2::VPCEndpoint")
    names = [each.properties.get("ServiceName") for each in endpoints]
    texts = [known_text(each) or getattr(each, "expression", "") for each in names]
    missing = [each for each in _ENDPOINTS if not any(text.endswith((f".{each}", f".{each}-fips")) for text in texts)]
    for each in _controllers(cluster):
        if missing and each.kind == "cluster-autoscaler" and all("}." in text or "$" not in text for text in texts):
            text = (
                f"its subnets have no route out, and the VPC has no endpoint for {', '.join(missing)}, so it resizes "
            )
            text += "no group"
            fix = f"Add an interface endpoint for {' and '.join(missing)}, or a NAT gateway."
            yield Problem(each, f"cluster autoscaler: {text}", fix)


def _found(cluster: Cluster) -> Iterator[Autoscaler]:
    return (each for each in cluster.autoscalers if each.kind == "cluster-autoscaler")


def _is_charted(autoscaler: Autoscaler, cluster: Cluster) -> bool:
    return any(each.origin == autoscaler.origin for each in cluster.charts)


@rule("GPU327", "error", source=_FLAGS)
def cluster_autoscaler_of_another_cloud(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler is configured for another cloud.

    It looks for node groups that don't exist, or exits at start. No node is ever created.

    Fix: Set --cloud-provider=aws.
    """
    for each in _found(case.cluster):
        written = each.flags.get(_CLOUD)
        if _is_charted(each, case.cluster) or isinstance(written, Unknown) or is_expression(str(written)):
            continue
        if written is None and _DISCOVERY in each.flags:
            text = f"cluster autoscaler: --{_CLOUD} is missing, and its default {_DEFAULT_CLOUD} isn't AWS"
            yield Problem(each, text)
        elif written is not None and written not in _CLOUDS:
            yield Problem(each, f"cluster autoscaler: --{_CLOUD} must be aws on EKS, got {written!r}")


@rule("GPU328", "error", source="https://github.com/kubernetes/autoscaler/issues/1507", presumed=True)
def cluster_autoscaler_that_may_not_list_nodes(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler isn't allowed to list nodes.

    The API server denies its first requests. It exits, and no node is ever created.

    Fix: Bind its service account to a ClusterRole with list and watch of nodes and pods, as the project's example does.
    """
    cluster = case.cluster
    for each in _found(cluster):
        space, name = each.service_account
        if _is_charted(each, cluster) or not _tells_rights(each, cluster):
            continue
        lacking = [
            kind
            for kind in ("nodes", "pods")
            if may_everywhere(each.service_account, ("list", "watch"), kind, cluster) is Answer.NO
        ]
        if not is_bound(each.service_account, cluster):
            text = f"it can't list nodes, because no ClusterRoleBinding names its service account {space}/{name}"
            alone = not cluster.objects_of_kind("ClusterRole", "ClusterRoleBinding")
            yield Problem(
                each, f"cluster autoscaler: {text}", unknown=alone or not cluster.sees_objects, doubt=cluster.doubt
            )
        elif lacking:
            text = (
                f"no ClusterRole of its service account {space}/{name} allows list and watch of {' and '.join(lacking)}"
            )
            yield Problem(each, f"cluster autoscaler: {text}", unknown=not cluster.sees_objects, doubt=cluster.doubt)


def _tells_rights(autoscaler: Autoscaler, cluster: Cluster) -> bool:
    """Whether the input defines service accounts and their rights at all; manifests contain both or neither."""
    accounts = {(each.namespace, each.name) for each in cluster.objects_of_kind("ServiceAccount")}
    written = autoscaler.service_account in accounts or bool(
        cluster.objects_of_kind("ClusterRole", "ClusterRoleBinding")
    )
    return written and known_text(autoscaler.pod.service_account) is not None
