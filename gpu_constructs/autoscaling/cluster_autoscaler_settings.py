"""What cluster autoscaler is told: its command line, and which groups it takes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.charts import CLUSTER_AUTOSCALER, PRIORITY_EXPANDER
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_facts.storage import STARTUP_TAINTS

NAME = CLUSTER_AUTOSCALER
NAMESPACE = KUBE_SYSTEM
PRIORITIES = PRIORITY_EXPANDER
# Rank of the groups that nobody ranked; ranks are positive.
EVERY_OTHER_GROUP = 1


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
