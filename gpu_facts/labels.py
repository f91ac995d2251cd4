"""Keys of labels, annotations, taints and tags of this library and of other projects.

Names of resources are in `resources`, names of charts and add-ons in `charts`. No other module repeats these names.
tests/facts/test_names.py checks that.
"""

from __future__ import annotations

from typing import Final

from gpu_facts.resources import GPU

# Domains of labels, which are also API groups of their owners.
OUR_DOMAIN: Final = "gpu-constructs.io"
# Custom resource types that read the size of a node group at deployment, and that tag the group's Auto Scaling group.
SIZE_RESOURCE: Final = "Custom::GpuNodeGroupSize"
TAGS_RESOURCE: Final = "Custom::GpuNodeGroupTags"
# Custom resource type that applies the CRDs inside a chart.
DEFINITIONS_RESOURCE: Final = "Custom::GpuChartDefinitions"
EKS_DOMAIN: Final = "eks.amazonaws.com"
KARPENTER_DOMAIN: Final = "karpenter.sh"
KARPENTER_AWS_DOMAIN: Final = "karpenter.k8s.aws"
KUEUE_DOMAIN: Final = "kueue.x-k8s.io"

# This library's labels. Every GPU node has both, in every kind of pool.
POOL: Final = "gpu-constructs.io/pool"
DEVICE_MANAGER: Final = "gpu-constructs.io/device-manager"

# Only on nodes with shared GPUs: the name of the profile. Each profile has a separate device plugin, which selects it.
SHARING: Final = "gpu-constructs.io/sharing"

# Only on nodes with EFA interfaces. EFA's device plugin selects it.
WITH_EFA: Final = "gpu-constructs.io/efa"

# NVIDIA's charts tolerate a taint with the name of the resource.
# Source: NVIDIA/k8s-device-plugin v0.20.0 deployments/helm/nvidia-device-plugin/values.yaml
GPU_TAINT: Final = GPU

# The GPU Operator configures a node's device plugin with the part of its configuration that this label names.
# Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
OPERATOR_CONFIG: Final = "nvidia.com/device-plugin.config"

# The GPU Operator partitions a node's GPUs by this label.
# Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
MIG_CONFIG: Final = "nvidia.com/mig.config"

# NVIDIA's charts select nodes by it. nodeadm itself sets it only for Kubernetes 1.35 and newer.
GPU_PRESENT: Final = "nvidia.com/gpu.present"

# Prefixes of labels that the GPU Operator, GPU Feature Discovery and Node Feature Discovery set on nodes themselves. A
# node may have such a label even if no template sets it.
# Source: https://github.com/NVIDIA/gpu-operator/blob/v26.7.0/controllers/state_manager.go (2026-08-20)
OPERAND: Final = "nvidia.com/gpu.deploy."
MPS_CAPABLE: Final = "nvidia.com/mps.capable"
NODE_FEATURE: Final = "feature.node.kubernetes.io/"
SET_AT_RUN_TIME: Final = (OPERAND, MPS_CAPABLE, NODE_FEATURE)

# Cluster autoscaler treats a node with this label as unready until it advertises GPUs. Without the label, it launches a
# second node while the device plugin of the first one starts.
ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
MIXED_ACCELERATORS: Final = "nvidia-mixed"

# Labels of Kubernetes and the cloud provider, with their older names.
# Source: https://kubernetes.io/docs/reference/labels-annotations-taints/ (2026-08)
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
# Labels of Karpenter and EKS.
ZONE_ID: Final = "topology.k8s.aws/zone-id"
OLD_ARCH: Final = "beta.kubernetes.io/arch"
OLD_OS: Final = "beta.kubernetes.io/os"
OLD_INSTANCE_TYPE: Final = "beta.kubernetes.io/instance-type"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
# Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/ (2026-11)
ENFORCED_LEVEL: Final = "pod-security.kubernetes.io/enforce"
WARNED_LEVEL: Final = "pod-security.kubernetes.io/warn"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
APP_NAME: Final = "app.kubernetes.io/name"

# Names of AWS Load Balancer Controller: the tag on all its resources in AWS, the label of namespaces whose pods get a
# readiness gate, and the classes and annotations with which Ingresses and Services request load balancers.
# Sources: kubernetes-sigs/aws-load-balancer-controller v3.5.0 docs/deploy/pod_readiness_gate.md,
# docs/guide/ingress/annotations.md
LOAD_BALANCER_TAG: Final = "elbv2.k8s.aws/cluster"
READINESS_GATES: Final = "elbv2.k8s.aws/pod-readiness-gate-inject"
ALB: Final = "alb.ingress.kubernetes.io/"
ALB_CLASS: Final = "alb"
ALB_CONTROLLER: Final = "ingress.k8s.aws/alb"
NLB: Final = "service.beta.kubernetes.io/aws-load-balancer-"
NLB_CLASS: Final = "service.k8s.aws/nlb"

# Label of the EBS CSI driver.
EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"

# Taints that keep pods off a node until a storage driver runs on it.
EBS_NOT_READY: Final = "ebs.csi.aws.com/agent-not-ready"
EFS_NOT_READY: Final = "efs.csi.aws.com/agent-not-ready"
FSX_NOT_READY: Final = "fsx.csi.aws.com/agent-not-ready"
S3_NOT_READY: Final = "s3.csi.aws.com/agent-not-ready"

# Labels of EKS. Auto Mode's nodes have the first one with the value "auto", nodes of a managed node group have the
# others.
COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
EKS_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
NODE_GROUP: Final = "eks.amazonaws.com/nodegroup"

# Labels of Karpenter.
# Source: https://karpenter.sh/v1.14/concepts/scheduling/
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
NODE_POOL: Final = "karpenter.sh/nodepool"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

# Annotation of cluster autoscaler: it doesn't evict the pod.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

# Labels of Kueue and KAI with the queue of a workload.
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
# Annotations on pod templates: a node label whose value all pods share, and groups of pods.
# Source: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/ (0.19)
KUEUE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PODSET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
KAI_QUEUE: Final = "kai.scheduler/queue"

# Labels of LeaderWorkerSet: on its pods, and on the object itself.
# Source: kubernetes-sigs/lws 060ab4da1 api/leaderworkerset/v1/leaderworkerset_types.go (2026-11)
GROUPS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
EXCLUSIVE_GROUPS: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"

# Tags of Auto Scaling groups by which cluster autoscaler finds its own groups. The second ends with the cluster's name.
# Source: kubernetes/autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md
AUTOSCALED_TAG: Final = "k8s.io/cluster-autoscaler/enabled"
AUTOSCALED_BY_TAG: Final = "k8s.io/cluster-autoscaler/"

# Prefixes of tags from which it reads the resources of an empty group's nodes, and options of one group.
RESOURCE_TAG: Final = "k8s.io/cluster-autoscaler/node-template/resources/"
LABEL_TAG: Final = "k8s.io/cluster-autoscaler/node-template/label/"
TAINT_TAG: Final = "k8s.io/cluster-autoscaler/node-template/taint/"
OPTION_TAG: Final = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"

# Tag of all resources of a cluster. It ends with the cluster's name.
CLUSTER_TAG: Final = "kubernetes.io/cluster/"
