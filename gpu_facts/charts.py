"""Names of charts, add-ons and registries.

The versions of pinned charts are in `versions`. The objects that charts and add-ons install on nodes are in `software`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# NVIDIA's charts. The DRA driver changed its name when it moved to another organization.
DEVICE_PLUGIN: Final = "nvidia-device-plugin"
GPU_OPERATOR: Final = "gpu-operator"
DRA_DRIVER: Final = "dra-driver-nvidia-gpu"
OLD_DRA_DRIVER: Final = "nvidia-dra-driver-gpu"
DRA_DRIVERS: Final = (DRA_DRIVER, OLD_DRA_DRIVER)
DCGM_EXPORTER: Final = "dcgm-exporter"
DYNAMO: Final = "dynamo-platform"
DYNAMO_CRDS: Final = "dynamo-crds"
# AWS charts and add-ons.
EFA_DEVICE_PLUGIN: Final = "aws-efa-k8s-device-plugin"
DRANET: Final = "aws-dranet"
NODE_TERMINATION_HANDLER: Final = "aws-node-termination-handler"
VPC_CNI_CHART: Final = "aws-vpc-cni"
LOAD_BALANCER_CONTROLLER: Final = "aws-load-balancer-controller"
# Charts that install the pod network, in addition to the add-on.
NETWORKS: Final = (VPC_CNI_CHART, "cilium", "tigera-operator", "calico")
# AWS charts and add-ons with the same name.
EBS_CSI_DRIVER: Final = "aws-ebs-csi-driver"
EFS_CSI_DRIVER: Final = "aws-efs-csi-driver"
FSX_CSI_DRIVER: Final = "aws-fsx-csi-driver"
S3_CSI_DRIVER: Final = "aws-mountpoint-s3-csi-driver"
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"
NODE_MONITORING_AGENT: Final = "eks-node-monitoring-agent"
# Only add-ons.
VPC_CNI: Final = "vpc-cni"
KUBE_PROXY: Final = "kube-proxy"
COREDNS: Final = "coredns"
# DaemonSets with other names than their charts.
AWS_NODE: Final = "aws-node"
EBS_NODE: Final = "ebs-csi-node"
EFS_NODE: Final = "efs-csi-node"
FSX_NODE: Final = "fsx-csi-node"
S3_NODE: Final = "s3-csi-node"
DCGM_SERVER: Final = "dcgm-server"
OPERATOR_DCGM_EXPORTER: Final = "nvidia-dcgm-exporter"
# Autoscalers.
CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"
# ConfigMap with the priorities of node groups.
PRIORITY_EXPANDER: Final = "cluster-autoscaler-priority-expander"
KARPENTER: Final = "karpenter"
KARPENTER_CRDS: Final = "karpenter-crd"
KEDA: Final = "keda"
# Its service account, and the manager name of the HorizontalPodAutoscalers that it creates.
KEDA_OPERATOR: Final = "keda-operator"
PROMETHEUS_ADAPTER: Final = "prometheus-adapter"
VERTICAL_POD_AUTOSCALER: Final = "vertical-pod-autoscaler"
# Monitoring.
KUBE_PROMETHEUS_STACK: Final = "kube-prometheus-stack"
KUBE_STATE_METRICS: Final = "kube-state-metrics"
METRICS_SERVER: Final = "metrics-server"
# Queueing systems, and controllers that run several pods as one workload.
KUEUE: Final = "kueue"
KAI_SCHEDULER: Final = "kai-scheduler"
VOLCANO: Final = "volcano"
JOBSET: Final = "jobset"
LEADER_WORKER_SET: Final = "lws"
KUBERAY: Final = "kuberay-operator"
# Names of components that are installed from manifests, and of pods that mount buckets: namespaces without a chart.
MPI_OPERATOR: Final = "mpi-operator"
OTHER_NAMESPACES: Final = (MPI_OPERATOR, "mount-s3")
# Namespaces of the releases that this library installs. All others are in kube-system.
NAMESPACES: Final[Mapping[str, str]] = {
    GPU_OPERATOR: GPU_OPERATOR,
    DRA_DRIVER: DRA_DRIVER,
    KUBE_PROMETHEUS_STACK: "monitoring",
    PROMETHEUS_ADAPTER: "monitoring",
    KEDA: KEDA,
    VERTICAL_POD_AUTOSCALER: "vpa",
    KUEUE: "kueue-system",
    KAI_SCHEDULER: KAI_SCHEDULER,
    JOBSET: "jobset-system",
    LEADER_WORKER_SET: "lws-system",
    KUBERAY: "kuberay-system",
    DYNAMO: "dynamo-system",
}
NVIDIA_REGISTRY: Final = "nvcr.io"
# Other registries may be in the VPC.
PUBLIC_REGISTRIES: Final = (
    NVIDIA_REGISTRY,
    "docker.io",
    "index.docker.io",
    "registry-1.docker.io",
    "mcr.microsoft.com",
    "registry.k8s.io",
    "k8s.gcr.io",
    "gcr.io",
    "quay.io",
    "ghcr.io",
    "public.ecr.aws",
)
# Charts with images on nvcr.io by default, and the value that sets another registry.
NVIDIA_CHARTS: Final[Mapping[str, tuple[str, str]]] = {
    DEVICE_PLUGIN: ("image", "repository"),
    DCGM_EXPORTER: ("image", "repository"),
    GPU_OPERATOR: ("operator", "repository"),
}


def is_public(image: str) -> bool:
    """Whether an image comes from a public registry. An image without a registry comes from Docker Hub."""
    host, slash, _ = image.partition("/")
    named = bool(slash) and (":" in host or "." in host)
    return host in PUBLIC_REGISTRIES if named else "${" not in host
