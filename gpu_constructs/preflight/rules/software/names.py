"""Names and versions that EKS does not have."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.facts.kubernetes_support import SUPPORT
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.node.nodes import minor
from gpu_constructs.preflight.rules.rule import Problem, rule
from gpu_constructs.refusals import did_you_mean

# EKS opens three minor versions a year.
_VERSIONS_AHEAD = 3
# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html (2026-11)
_ADD_ONS = (
    "adot amazon-cloudwatch-observability aws-ebs-csi-driver aws-efs-csi-driver aws-fsx-csi-driver aws-guardduty-agent "
    "aws-mountpoint-s3-csi-driver coredns eks-node-monitoring-agent eks-pod-identity-agent kube-proxy metrics-server "
    "snapshot-controller vpc-cni"
)
_NEAR = 0.8


@rule("GPU390", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def kubernetes_version_that_eks_does_not_have(case: Case) -> Iterator[Problem]:
    """Kubernetes version that EKS does not have.

    CreateCluster refuses it.

    Fix: Name a minor version that EKS supports; 'aws eks describe-cluster-versions' lists them.
    """
    cluster = case.cluster
    if cluster.resource is None or cluster.version is None:
        return
    newest = max(map(minor, SUPPORT))
    asked = minor(cluster.version)
    if asked == (0, 0) or asked > (newest[0], newest[1] + _VERSIONS_AHEAD):
        known = f"the newest known is {newest[0]}.{newest[1]}"
        yield Problem(cluster.resource, f"cluster {cluster.name}: EKS has no Kubernetes {cluster.version}; {known}")


@rule(
    "GPU391", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html"
)
def add_on_that_eks_does_not_have(case: Case) -> Iterator[Problem]:
    """Add-on that EKS does not have.

    CreateAddon refuses the name, and the deployment fails.

    Fix: Correct the name; 'aws eks describe-addon-versions' lists those that there are.
    """
    known = _ADD_ONS.split()
    for addon in case.cluster.addons:
        near = did_you_mean(addon.name, known, closeness=_NEAR) if addon.name not in known else ""
        if near:
            yield Problem(addon, f"EKS may have no add-on {addon.name}{near}", unknown=True)
