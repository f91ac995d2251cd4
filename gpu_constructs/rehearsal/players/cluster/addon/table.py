"""The workloads of the add-ons that this AWS may be asked for. Another is not played, and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.cluster.addon.workload import Workload

_ALL = [{"operator": "Exists"}]
_CRITICAL = {"key": "CriticalAddonsOnly", "operator": "Exists"}
_ON_NODE, _ON_CLUSTER = "system-node-critical", "system-cluster-critical"
_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
# Types that the host engine of DCGM runs on, sizes by family.
# Source: https://github.com/aws/eks-node-monitoring-agent, charts/eks-node-monitoring-agent/values.yaml (2026-11)
_DCGM_SIZES = {
    "g3": "4xlarge 8xlarge 16xlarge",
    "g3s": "xlarge",
    "g4dn": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal",
    "g5": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g5g": "xlarge 2xlarge 4xlarge 8xlarge 16xlarge metal",
    "g6": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g6e": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g6f": "large xlarge 2xlarge 4xlarge",
    "g7": "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge",
    "g7e": "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge",
    "gr6": "4xlarge 8xlarge",
    "gr6f": "4xlarge",
    "p2": "xlarge 8xlarge 16xlarge",
    "p3": "2xlarge 8xlarge 16xlarge",
    "p3dn": "24xlarge",
    "p4d": "24xlarge",
    "p4de": "24xlarge",
    "p5": "4xlarge 48xlarge",
    "p5e": "48xlarge",
    "p5en": "48xlarge",
    "p6-b200": "48xlarge",
    "p6-b300": "48xlarge",
    "p6e-gb200": "36xlarge",
    "p6e-gb300": "36xlarge",
}


def _affinity(**keys: tuple[str, list[str]]) -> dict[str, Any]:
    terms = [{"key": key, "operator": operator, "values": values} for key, (operator, values) in keys.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _not_on(*kinds: str, **more: tuple[str, list[str]]) -> dict[str, Any]:
    return _affinity(**{_COMPUTE_TYPE: ("NotIn", list(kinds))}, **more)


def _daemon(*not_on: str, host: bool = True) -> dict[str, Any]:
    """Render what pods have that run on every node but those of some kinds."""
    network = {"hostNetwork": True} if host else {}
    return network | {"tolerations": _ALL, "priorityClassName": _ON_NODE, "affinity": _not_on(*not_on)}


_DCGM_TYPES = [f"{family}.{size}" for family, sizes in _DCGM_SIZES.items() for size in sizes.split()]
WORKLOADS: Mapping[str, tuple[Workload, ...]] = {
    # https://github.com/aws/amazon-vpc-cni-k8s/blob/master/config/master/aws-k8s-cni.yaml
    "vpc-cni": (
        Workload(
            name="aws-node", account="aws-node", requests={"cpu": "50m"}, pod=_daemon("fargate", "hybrid", "auto")
        ),
    ),
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
    "kube-proxy": (
        Workload(name="kube-proxy", account="kube-proxy", requests={"cpu": "100m"}, pod=_daemon("fargate", "auto")),
    ),
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html
    "coredns": (
        Workload(
            name="coredns",
            account="coredns",
            replicas=2,
            requests={"cpu": "100m", "memory": "70Mi"},
            pod={
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}, _CRITICAL],
                "priorityClassName": _ON_CLUSTER,
            },
        ),
    ),
    # https://github.com/aws/eks-pod-identity-agent/blob/main/charts/eks-pod-identity-agent/values.yaml
    "eks-pod-identity-agent": (
        Workload(name="eks-pod-identity-agent", account="eks-pod-identity-agent", pod=_daemon("fargate")),
    ),
    # https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/charts/aws-ebs-csi-driver/values.yaml
    "aws-ebs-csi-driver": (
        Workload(
            name="ebs-csi-controller",
            account="ebs-csi-controller-sa",
            at=("controller",),
            replicas=2,
            # Six containers of it.
            requests={"cpu": "60m", "memory": "240Mi"},
            pod={
                "tolerations": [_CRITICAL, {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}],
                "priorityClassName": _ON_CLUSTER,
            },
        ),
        Workload(
            name="ebs-csi-node",
            account="ebs-csi-node-sa",
            at=("node",),
            # Three containers of it.
            requests={"cpu": "30m", "memory": "120Mi"},
            pod=_daemon("fargate", "auto", "hybrid", host=False),
            removes="ebs.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/awslabs/mountpoint-s3-csi-driver/blob/v2.7.0/charts/aws-mountpoint-s3-csi-driver/values.yaml
    "aws-mountpoint-s3-csi-driver": (
        Workload(
            name="s3-csi-controller",
            account="s3-csi-driver-controller-sa",
            at=("controller",),
            replicas=1,
            requests={"cpu": "10m", "memory": "40Mi"},
            pod={"priorityClassName": _ON_CLUSTER},
        ),
        Workload(
            name="s3-csi-node",
            account="s3-csi-driver-sa",
            at=("node",),
            # Three containers of it.
            requests={"cpu": "30m", "memory": "120Mi"},
            pod=_daemon("fargate", "hybrid", host=False),
            removes="s3.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/charts/aws-fsx-csi-driver/values.yaml
    "aws-fsx-csi-driver": (
        Workload(
            name="fsx-csi-controller",
            account="fsx-csi-controller-sa",
            at=("controller",),
            replicas=2,
            # Four containers of it.
            requests={"cpu": "40m", "memory": "136Mi"},
            pod={
                "tolerations": [_CRITICAL, {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}],
                "priorityClassName": _ON_CLUSTER,
            },
        ),
        Workload(
            name="fsx-csi-node",
            account="fsx-csi-node-sa",
            at=("node",),
            # Three containers of it.
            requests={"cpu": "30m", "memory": "104Mi"},
            pod=_daemon("fargate", host=False),
            removes="fsx.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/aws/eks-node-monitoring-agent/blob/main/charts/eks-node-monitoring-agent/values.yaml
    "eks-node-monitoring-agent": (
        Workload(
            name="eks-node-monitoring-agent",
            account="eks-node-monitoring-agent",
            at=("nodeAgent",),
            requests={"cpu": "10m", "memory": "30Mi"},
            pod=_daemon("fargate", "auto", "hybrid"),
        ),
        Workload(
            name="dcgm-server",
            account="default",
            at=("dcgmAgent",),
            pod={
                "priorityClassName": _ON_NODE,
                "affinity": _not_on(
                    "fargate",
                    "auto",
                    "hybrid",
                    **{
                        "node.kubernetes.io/instance-type": ("In", _DCGM_TYPES),
                        "kubernetes.io/arch": ("In", ["amd64"]),
                    },
                ),
            },
        ),
    ),
}
