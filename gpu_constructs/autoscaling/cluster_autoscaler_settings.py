"""Settings of cluster autoscaler: its command line, and the priorities of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_facts.storage import STARTUP_TAINTS

# Rank of groups without a rank. Ranks that users set are higher.
EVERY_OTHER_GROUP = 1


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


def priorities_text(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return the configuration of the priority expander: patterns of group names by rank, the highest first.

    A group that no pattern matches would never be used while another one matches. So the lowest rank matches all
    groups.
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/expander/priority/readme.md
    """
    ranked = {rank: list(priorities[rank]) for rank in sorted(priorities, reverse=True)}
    return to_yaml(ranked | {EVERY_OTHER_GROUP: [".*"]}, width=float("inf"))
