"""Names and versions that EKS does not have."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.kubernetes_support import SUPPORT
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.eksctl.configs import configs
from gpu_preflight.reading.eksctl.resources import metadata
from gpu_preflight.rules.rule import Problem, rule

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


@rule("GPU459", "error", source="https://github.com/eksctl-io/eksctl/issues/5556")
def version_of_a_clusterconfig_that_is_a_number(case: Case) -> Iterator[Problem]:
    """Version of a ClusterConfig that is a number.

    eksctl takes text only and does not load the file; YAML also reads 1.30 without quotes as 1.3.

    Fix: Write metadata.version in quotes.
    """
    cluster = case.cluster
    named = [each for each in map(metadata, configs(list(cluster.objects))) if each.get("name") == cluster.name]
    for version in [each.get("version") for each in named]:
        if cluster.resource is not None and isinstance(version, (int, float)) and not isinstance(version, bool):
            text = (
                f"ClusterConfig {cluster.name}: metadata.version must be text such as '1.36', got the number {version}"
            )
            yield Problem(cluster.resource, text)


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
