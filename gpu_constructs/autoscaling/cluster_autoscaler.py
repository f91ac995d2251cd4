"""Cluster autoscaler: scales node groups up for pods that fit on no node, and down again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from constructs import Construct

from gpu_constructs.autoscaling.cluster_autoscaler_manifests import cluster_autoscaler_manifests
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.context import stack_place
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document, string_equals
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.charts import CLUSTER_AUTOSCALER
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_image, refuse_unless_whole_number
from gpu_facts.storage import STARTUP_TAINTS
from gpu_facts.versions import WITHOUT_CLAIMS, autoscaler_image

# Rank of groups without a rank. Ranks that users set are higher.
_EVERY_OTHER_GROUP = 1
_DRA_BY_FLAG = ("1.34",)


class RankedGroup(Protocol):
    """A node group that priorities can refer to."""

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the name of its Auto Scaling group."""


@named_arguments
class ClusterAutoscaler(Construct):
    """Cluster autoscaler with the flags, permissions and image that GPU node groups need.

    It finds the groups by the two tags that EKS sets on the Auto Scaling group of every managed node group, and may
    scale only groups with these tags. The cluster needs the add-on ``eks-pod-identity-agent``.

    Source: https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws/README.md

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        kubernetes_version: Minor version of an imported cluster, e.g. ``1.36``. Default: the cluster's own.
        image: Image with tag or digest. Default: the release for the Kubernetes version.
        scaling_tags: Tags of the Auto Scaling groups that it may scale. Default: both discovery tags.
        priorities: Order in which it uses groups, by rank from 2 up, the highest first. Groups are node groups of this
            app, or regular expressions of Auto Scaling groups' names. Other groups come last. Create the autoscaler in
            the stack of these groups. Default: the group with the least waste.
        balance_similar: Whether to keep groups of equal nodes at equal size. A group that has had no node yet is equal
            to no other. Nodes for one job are spread over zones. It is useful for replicas on `ZonalNodeGroups`.
        dynamic_resource_allocation: Whether to count devices that pods claim through DRA. It is always on from
            Kubernetes 1.35. It never scales a group up from zero, because a DRA driver advertises only devices of
            existing nodes.

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
        tags = _discovery_tags(name) if scaling_tags is None else scaling_tags
        condition = string_equals(self, "ScalingTags", {f"aws:ResourceTag/{key}": tags[key] for key in tags})
        statements = _autoscaler_statements(
            cluster_name=name, partition=place.partition, region=place.region, account=place.account, tags=condition
        )
        self.identity = PodIdentity(
            self,
            "Identity",
            cluster=ref,
            namespace=KUBE_SYSTEM,
            service_account=CLUSTER_AUTOSCALER,
            policies={"ClusterAutoscaler": policy_document(statements)},
        )
        command = flags(name, priorities=ranks is not None, balance_similar=balance_similar, claims=by_claim)
        text = _priorities_text(ranks) if ranks is not None else None
        manifests = cluster_autoscaler_manifests(region=place.region, image=chosen, command=command, priorities=text)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=manifests)
        # A pod gets credentials only if the association exists when the pod starts. It needs the association until it
        # is deleted.
        self.resource.node.add_dependency(self.identity)


def _patterns(who: object, priorities: object) -> dict[int, list[str]]:
    if not isinstance(priorities, Mapping) or not priorities:
        raise TypeError(f"{who}: priorities must map ranks to node groups, got {priorities!r}; write {{10: [group]}}")
    found: dict[int, list[str]] = {}
    for rank, groups in priorities.items():
        refuse_unless_whole_number(who, "priorities", rank, least=_EVERY_OTHER_GROUP + 1, fix="ranks are positive")
        if not isinstance(groups, (list, tuple)) or not groups:
            raise TypeError(f"{who}: priorities[{rank}] must be a list of node groups, got {groups!r}; write [group]")
        found[rank] = [_pattern(who, rank, group) for group in groups]
    return found


def _pattern(who: object, rank: int, group: object) -> str:
    if not isinstance(group, str):
        named = getattr(group, "auto_scaling_group_pattern", None)
        if not isinstance(named, str):
            raise TypeError(
                f"{who}: priorities[{rank}] must contain node groups or regular expressions, got {group!r}; remove it"
            )
        return named
    try:
        re.compile(group)
    except re.error as error:
        raise ValueError(
            f"{who}: priorities[{rank}] must be a regular expression, got {group!r}; fix it: {error}"
        ) from error
    return group


def _needs_flag_for_claims(who: object, version: str) -> bool:
    """Whether the release for a Kubernetes version counts claims only with a flag.

    Source: kubernetes/autoscaler cluster-autoscaler/config/flags/flags.go of 1.33.6, 1.34.5, 1.35.2 and 1.36.1
    """
    if version in WITHOUT_CLAIMS:
        raise ValueError(
            f"{who}: dynamic_resource_allocation must be False on Kubernetes {version}, got True; upgrade to 1.34, "
            "because the API server has no resource.k8s.io/v1"
        )
    return version in _DRA_BY_FLAG


def _discovery_tags(cluster_name: str) -> dict[str, str]:
    """Return the tags that EKS sets on the Auto Scaling groups of managed node groups.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html. The values are observed, not
    documented.
    """
    return {AUTOSCALED_TAG: "true", f"{AUTOSCALED_BY_TAG}{cluster_name}": "owned"}


def _autoscaler_statements(
    *, cluster_name: str, partition: str, region: str, account: str, tags: object
) -> list[dict[str, Any]]:
    """Return the minimal permissions of cluster autoscaler. The Describe actions support no resource.

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
        raise TypeError(f"{who}: scaling_tags must map tag keys to values, got {tags!r}; write {{'key': 'value'}}")
    if not tags:
        raise ValueError(
            f"{who}: scaling_tags must name at least one tag, got none; add one, because without a condition the role "
            "could scale every Auto Scaling group of the account"
        )


def flags(
    cluster_name: str, *, priorities: bool = False, balance_similar: bool = False, claims: bool = False
) -> tuple[str, ...]:
    """Return the command line for a cluster with GPU groups.

    Args:
        cluster_name: Name of the cluster.
        priorities: Whether groups are ranked.
        balance_similar: Whether equal groups are kept at equal size.
        claims: Whether to add the flag for pods with ResourceClaims, if the image doesn't count them by default.
    """
    return (
        "--cloud-provider=aws",
        f"--namespace={KUBE_SYSTEM}",
        # One flag with both tags. With only the first tag it would manage other clusters' groups. If the flag is
        # repeated, it finds none.
        f"--node-group-auto-discovery=asg:tag={AUTOSCALED_TAG},{AUTOSCALED_BY_TAG}{cluster_name}",
        "--expander=priority,least-waste" if priorities else "--expander=least-waste",
        # Otherwise it never removes a node with a pod that has an emptyDir. Most GPU pods have one for /dev/shm.
        "--skip-nodes-with-local-storage=false",
        f"--balance-similar-node-groups={str(balance_similar).lower()}",
        # p5 and p6 need more than the flag's default of 15 minutes.
        "--max-node-provision-time=30m",
        "--scale-down-unneeded-time=10m",
        "--scale-down-delay-after-add=10m",
        "--scale-down-gpu-utilization-threshold=0.5",
        # EKS reports startup taints as permanent, so an empty group got no node. On a new node they mean that it isn't
        # ready yet.
        *(f"--startup-taint={key}" for key in STARTUP_TAINTS.values()),
        *(["--enable-dynamic-resource-allocation=true"] if claims else []),
        "--stderrthreshold=info",
        "--v=4",
    )


def _priorities_text(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return the configuration of the priority expander: patterns of group names by rank, the highest first.

    A group that no pattern matches would never be used while another one matches. So the lowest rank matches all
    groups.
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/expander/priority/readme.md
    """
    ranked = {rank: list(priorities[rank]) for rank in sorted(priorities, reverse=True)}
    return to_yaml(ranked | {_EVERY_OTHER_GROUP: [".*"]}, width=float("inf"))
