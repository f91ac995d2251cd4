"""Cluster autoscaler: scales node groups up for pods that fit nowhere, and down again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.own_stack import stack_place
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document, string_equals
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.charts import CLUSTER_AUTOSCALER, PRIORITY_EXPANDER
from gpu_facts.kubernetes import CLUSTER_CRITICAL, KUBE_SYSTEM
from gpu_facts.labels import APP_NAME, AUTOSCALED_BY_TAG, AUTOSCALED_TAG, POOL, SAFE_TO_EVICT
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_image, refuse_unless_whole_number
from gpu_facts.storage import STARTUP_TAINTS
from gpu_facts.versions import WITHOUT_CLAIMS, autoscaler_image

NAME = CLUSTER_AUTOSCALER
NAMESPACE = KUBE_SYSTEM
PRIORITIES = PRIORITY_EXPANDER
# Rank of the groups that nobody ranked; ranks are positive.
EVERY_OTHER_GROUP = 1
_PORT = 8085
_LABELS = {APP_NAME: NAME}
Rule = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]
# API groups, resources, verbs, names. Without a single list or watch of these the process runs, is ready, and
# never finishes its first loop. Source: kubernetes/autoscaler cluster-autoscaler-1.36.1
# cluster-autoscaler/cloudprovider/aws/examples/cluster-autoscaler-autodiscover.yaml
CLUSTER_RULES: tuple[Rule, ...] = (
    ([""], ["events", "endpoints"], ["create", "patch"], []),
    ([""], ["pods/eviction"], ["create"], []),
    ([""], ["pods/status"], ["update"], []),
    ([""], ["endpoints"], ["get", "update"], [NAME]),
    ([""], ["nodes"], ["watch", "list", "get", "update"], []),
    (
        [""],
        [
            "namespaces",
            "pods",
            "services",
            "replicationcontrollers",
            "persistentvolumeclaims",
            "persistentvolumes",
        ],
        ["watch", "list", "get"],
        [],
    ),
    (["policy"], ["poddisruptionbudgets"], ["watch", "list"], []),
    (["apps"], ["statefulsets", "replicasets", "daemonsets"], ["watch", "list", "get"], []),
    (["resource.k8s.io"], ["deviceclasses", "resourceslices", "resourceclaims"], ["watch", "list", "get"], []),
    (
        ["storage.k8s.io"],
        ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
        ["watch", "list", "get"],
        [],
    ),
    (["batch"], ["jobs"], ["get", "list", "watch", "patch"], []),
    (["coordination.k8s.io"], ["leases"], ["create"], []),
    (["coordination.k8s.io"], ["leases"], ["get", "update"], [NAME]),
)
NAMESPACE_RULES: tuple[Rule, ...] = (
    ([""], ["configmaps"], ["create", "list", "watch"], []),
    (
        [""],
        ["configmaps"],
        ["delete", "get", "update", "watch"],
        ["cluster-autoscaler-status", PRIORITIES],
    ),
)
_DRA_BY_FLAG = ("1.34",)


def flags(
    cluster_name: str, *, priorities: bool = False, balance_similar: bool = False, claims: bool = False
) -> tuple[str, ...]:
    """Return the command line for a cluster with GPU groups.

    Args:
        cluster_name: Name of the cluster.
        priorities: Whether groups are ranked.
        balance_similar: Whether equal groups are kept equally large.
        claims: Whether pods with ResourceClaims are to be scheduled and the image does not do so anyway.
    """
    return (
        "--cloud-provider=aws",
        f"--namespace={NAMESPACE}",
        # One flag with both tags: with the first alone it takes over other clusters' groups, and repeating the
        # flag finds none.
        f"--node-group-auto-discovery=asg:tag={AUTOSCALED_TAG},{AUTOSCALED_BY_TAG}{cluster_name}",
        "--expander=priority,least-waste" if priorities else "--expander=least-waste",
        # Otherwise a node with a pod that has an emptyDir, as most GPU pods do for /dev/shm, is never removed.
        "--skip-nodes-with-local-storage=false",
        f"--balance-similar-node-groups={str(balance_similar).lower()}",
        # p5 and p6 need more than the 15 minutes that are the flag's default.
        "--max-node-provision-time=30m",
        "--scale-down-unneeded-time=10m",
        "--scale-down-delay-after-add=10m",
        "--scale-down-gpu-utilization-threshold=0.5",
        # EKS tells of them as if they stayed, so that an empty group got no node; on a new one they mean not ready yet.
        *(f"--startup-taint={key}" for key in STARTUP_TAINTS.values()),
        *(["--enable-dynamic-resource-allocation=true"] if claims else []),
        "--stderrthreshold=info",
        "--v=4",
    )


def priorities_text(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return what the priority expander reads: patterns of group names by rank, the highest first to be taken.

    A group that no pattern matches would never be taken while another one matches, so the lowest rank takes all.
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/expander/priority/readme.md
    """
    ranked = {rank: list(priorities[rank]) for rank in sorted(priorities, reverse=True)}
    return to_yaml(ranked | {EVERY_OTHER_GROUP: [".*"]}, width=float("inf"))


def cluster_autoscaler_chart(
    *, region: str, image: str, command: Sequence[str], priorities: str | None = None
) -> cdk8s.Chart:
    """Return service account, RBAC, deployment and disruption budget; and the ranks of groups where there are any."""
    chart = cdk8s.Chart(cdk8s.App(), NAME)
    here = k8s.ObjectMeta(name=NAME, namespace=NAMESPACE, labels=_LABELS)
    everywhere = k8s.ObjectMeta(name=NAME, labels=_LABELS)
    subject = k8s.Subject(kind="ServiceAccount", name=NAME, namespace=NAMESPACE)
    group = "rbac.authorization.k8s.io"

    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=here)
    k8s.KubeClusterRole(chart, "ClusterRole", metadata=everywhere, rules=_rules(CLUSTER_RULES))
    k8s.KubeClusterRoleBinding(
        chart,
        "ClusterRoleBinding",
        metadata=everywhere,
        role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=NAME),
        subjects=[subject],
    )
    k8s.KubeRole(chart, "Role", metadata=here, rules=_rules(NAMESPACE_RULES))
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=here,
        role_ref=k8s.RoleRef(api_group=group, kind="Role", name=NAME),
        subjects=[subject],
    )
    if priorities is not None:
        name = k8s.ObjectMeta(name=PRIORITIES, namespace=NAMESPACE, labels=_LABELS)
        k8s.KubeConfigMap(chart, "Priorities", metadata=name, data={"priorities": priorities})
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=here,
        spec=k8s.DeploymentSpec(
            replicas=1,
            selector=k8s.LabelSelector(match_labels=_LABELS),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(
                    labels=_LABELS,
                    annotations={
                        # It must not remove the node it runs on.
                        SAFE_TO_EVICT: "false",
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(_PORT),
                    },
                ),
                spec=_pod(command=command, region=region, image=image),
            ),
        ),
    )
    k8s.KubePodDisruptionBudget(
        chart,
        "PodDisruptionBudget",
        metadata=here,
        spec=k8s.PodDisruptionBudgetSpec(
            max_unavailable=k8s.IntOrString.from_number(1), selector=k8s.LabelSelector(match_labels=_LABELS)
        ),
    )
    return chart


def _rules(rules: Sequence[Rule]) -> list[k8s.PolicyRule]:
    return [
        k8s.PolicyRule(
            api_groups=list(groups), resources=list(resources), verbs=list(verbs), resource_names=list(names) or None
        )
        for groups, resources, verbs, names in rules
    ]


def _pod(*, command: Sequence[str], region: str, image: str) -> k8s.PodSpec:
    memory = k8s.Quantity.from_string("600Mi")
    not_on_gpu_nodes = k8s.NodeSelectorRequirement(key=POOL, operator="DoesNotExist")
    term = k8s.NodeSelectorTerm(match_expressions=[not_on_gpu_nodes])
    return k8s.PodSpec(
        service_account_name=NAME,
        priority_class_name=CLUSTER_CRITICAL,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=65534,
            fs_group=65534,
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        ),
        affinity=k8s.Affinity(
            node_affinity=k8s.NodeAffinity(
                required_during_scheduling_ignored_during_execution=k8s.NodeSelector(node_selector_terms=[term])
            )
        ),
        tolerations=[k8s.Toleration(key="CriticalAddonsOnly", operator="Exists")],
        containers=[
            k8s.Container(
                name=NAME,
                image=image,
                command=["./cluster-autoscaler", *command],
                env=[k8s.EnvVar(name="AWS_REGION", value=region)],
                ports=[k8s.ContainerPort(name="metrics", container_port=_PORT)],
                liveness_probe=k8s.Probe(
                    http_get=k8s.HttpGetAction(path="/health-check", port=k8s.IntOrString.from_number(_PORT))
                ),
                resources=k8s.ResourceRequirements(
                    requests={"cpu": k8s.Quantity.from_string("100m"), "memory": memory}, limits={"memory": memory}
                ),
                security_context=k8s.SecurityContext(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=k8s.Capabilities(drop=["ALL"]),
                ),
            )
        ],
    )


class RankedGroup(Protocol):
    """A node group that priorities can name."""

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the name of its Auto Scaling group."""


@named_arguments
class ClusterAutoscaler(Construct):
    """Cluster autoscaler with the flags, permissions and image that GPU node groups need.

    It finds the groups by the two tags that EKS puts on the Auto Scaling group of every managed node group, and may
    only scale what carries them. The cluster needs the add-on ``eks-pod-identity-agent``.

    Source: https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws/README.md

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        kubernetes_version: Minor version of an imported cluster, e.g. ``1.36``. Default: the cluster's own.
        image: Image with tag or digest. Default: the release for the Kubernetes version.
        scaling_tags: Tags of the Auto Scaling groups that it may scale. Default: both discovery tags.
        priorities: Which groups to take first, by rank from 2 up, the highest first: node groups of this app, or
            regular expressions of Auto Scaling groups' names. The others come last.
            Default: the group that wastes least.
        balance_similar: Keep groups of equal nodes equally large. A group that has had no node yet equals no other,
            and nodes for one job are spread over zones: it suits replicas, on `ZonalNodeGroups`.
        dynamic_resource_allocation: Count devices that pods claim through DRA. From Kubernetes 1.35 on it is always
            so. It never scales a group up from zero: a DRA driver advertises devices of live nodes only.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The Kubernetes version is unknown or unsupported, or the cluster has no kubectl provider.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        kubernetes_version: str | None = None,
        image: str | None = None,
        scaling_tags: Mapping[str, str] | None = None,
        priorities: Mapping[int, Sequence[RankedGroup | str]] | None = None,
        balance_similar: bool = False,
        dynamic_resource_allocation: bool = False,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        version = ref.kubernetes_version(kubernetes_version, who=who)
        chosen = autoscaler_image(version, who=who).reference if image is None else image
        refuse_unless_image(who, "image", chosen)
        refuse_unless_bool(who, "balance_similar", balance_similar)
        refuse_unless_bool(who, "dynamic_resource_allocation", dynamic_resource_allocation)
        _refuse_unless_tags(who, scaling_tags)
        ranks = _patterns(who, priorities) if priorities is not None else None
        by_claim = dynamic_resource_allocation and _needs_flag_for_claims(who, version)
        ref.claim(who, registry.CLUSTER_AUTOSCALER, why="both would scale the same groups")

        place, name = stack_place(self), ref.name
        tags = discovery_tags(name) if scaling_tags is None else scaling_tags
        condition = string_equals(self, "ScalingTags", {f"aws:ResourceTag/{key}": tags[key] for key in tags})
        statements = autoscaler_statements(
            cluster_name=name, partition=place.partition, region=place.region, account=place.account, tags=condition
        )
        self.identity = PodIdentity(
            self,
            "Identity",
            cluster=ref,
            namespace=NAMESPACE,
            service_account=NAME,
            policies={"ClusterAutoscaler": policy_document(statements)},
        )
        command = flags(name, priorities=ranks is not None, balance_similar=balance_similar, claims=by_claim)
        text = priorities_text(ranks) if ranks is not None else None

        chart = cluster_autoscaler_chart(region=place.region, image=chosen, command=command, priorities=text)
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        # A pod gets credentials only if the association exists when it starts; and it needs them until it is gone.
        self.resource.node.add_dependency(self.identity)


def _patterns(who: object, priorities: object) -> dict[int, list[str]]:
    if not isinstance(priorities, Mapping) or not priorities:
        raise TypeError(f"{who}: priorities must map ranks to node groups, got {priorities!r}")
    found: dict[int, list[str]] = {}
    for rank, groups in priorities.items():
        refuse_unless_whole_number(who, "priorities", rank, least=EVERY_OTHER_GROUP + 1, fix="ranks are positive")
        if not isinstance(groups, (list, tuple)) or not groups:
            raise TypeError(f"{who}: priorities[{rank}] must be a list of node groups, got {groups!r}")
        found[rank] = [_pattern(who, rank, group) for group in groups]
    return found


def _pattern(who: object, rank: int, group: object) -> str:
    if not isinstance(group, str):
        named = getattr(group, "auto_scaling_group_pattern", None)
        if not isinstance(named, str):
            raise TypeError(f"{who}: priorities[{rank}] must hold node groups or regular expressions, got {group!r}")
        return named
    try:
        re.compile(group)
    except re.error as error:
        raise ValueError(f"{who}: priorities[{rank}] must be a regular expression, got {group!r}; {error}") from error
    return group


def _needs_flag_for_claims(who: object, version: str) -> bool:
    """Whether the release for a Kubernetes version counts claims only when it is told to.

    Source: kubernetes/autoscaler cluster-autoscaler/config/flags/flags.go of 1.33.6, 1.34.5, 1.35.2 and 1.36.1
    """
    if version in WITHOUT_CLAIMS:
        raise ValueError(
            f"{who}: dynamic_resource_allocation must be False on Kubernetes {version}, whose API server serves no "
            "resource.k8s.io/v1, got True; upgrade to 1.34"
        )
    return version in _DRA_BY_FLAG


def discovery_tags(cluster_name: str) -> dict[str, str]:
    """Return the tags that EKS puts on the Auto Scaling groups of managed node groups.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html; observed values, not stated.
    """
    return {
        AUTOSCALED_TAG: "true",
        f"{AUTOSCALED_BY_TAG}{cluster_name}": "owned",
    }


def autoscaler_statements(
    *, cluster_name: str, partition: str, region: str, account: str, tags: object
) -> list[dict[str, Any]]:
    """Return the least that cluster autoscaler needs. The Describe actions take no resource.

    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
    """
    here = f"{region}:{account}"
    return [
        {
            "Sid": "Read",
            "Effect": "Allow",
            "Action": [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            "Resource": "*",
        },
        {
            # Labels, taints and resource tags of an empty group.
            "Sid": "ReadNodegroups",
            "Effect": "Allow",
            "Action": "eks:DescribeNodegroup",
            "Resource": f"arn:{partition}:eks:{here}:nodegroup/{cluster_name}/*/*",
        },
        {
            "Sid": "Scale",
            "Effect": "Allow",
            "Action": ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            "Resource": f"arn:{partition}:autoscaling:{here}:autoScalingGroup:*:autoScalingGroupName/*",
            "Condition": {"StringEquals": tags},
        },
    ]


def _refuse_unless_tags(who: object, tags: object) -> None:
    if tags is None:
        return
    if not isinstance(tags, Mapping) or not all(isinstance(word, str) for pair in tags.items() for word in pair):
        raise TypeError(f"{who}: scaling_tags must map tag keys to values, got {tags!r}")
    if not tags:
        raise ValueError(
            f"{who}: scaling_tags must name at least one tag, got none; without a condition the role could scale "
            "every Auto Scaling group of the account"
        )
