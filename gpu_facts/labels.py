"""Keys of labels, annotations, taints and tags: ours, and those of others that we set or look for.

Resources stand in `resources`, names of charts and add-ons in `charts`. What stands there or here is written nowhere
else, which tests/facts/test_names.py sees to.
"""

from __future__ import annotations

from typing import Final

from gpu_facts.resources import GPU

# Domains of labels, which are API groups of who owns them.
OUR_DOMAIN: Final = "gpu-constructs.io"
# What asks a function for the size of a node group in a template, and what has it tag the group's Auto Scaling group.
SIZE_RESOURCE: Final = "Custom::GpuNodeGroupSize"
TAGS_RESOURCE: Final = "Custom::GpuNodeGroupTags"
# What has the definitions inside a chart applied.
DEFINITIONS_RESOURCE: Final = "Custom::GpuChartDefinitions"
EKS_DOMAIN: Final = "eks.amazonaws.com"
KARPENTER_DOMAIN: Final = "karpenter.sh"
KARPENTER_AWS_DOMAIN: Final = "karpenter.k8s.aws"
KUEUE_DOMAIN: Final = "kueue.x-k8s.io"

# Ours. Every GPU node carries both, whatever kind of pool it comes from.
POOL: Final = "gpu-constructs.io/pool"
DEVICE_MANAGER: Final = "gpu-constructs.io/device-manager"

# Only on nodes whose GPUs are shared: the name of the profile, by which a device plugin of its own selects them.
SHARING: Final = "gpu-constructs.io/sharing"

# Only on nodes with EFA interfaces; EFA's device plugin selects by it.
WITH_EFA: Final = "gpu-constructs.io/efa"

# NVIDIA's charts tolerate a taint that has the name of the resource.
# Source: NVIDIA/k8s-device-plugin v0.20.0 deployments/helm/nvidia-device-plugin/values.yaml
GPU_TAINT: Final = GPU

# The GPU Operator gives a node's device plugin the part of its configuration that this label names.
# Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
OPERATOR_CONFIG: Final = "nvidia.com/device-plugin.config"

# The GPU Operator cuts a node's GPUs as this label says.
# Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
MIG_CONFIG: Final = "nvidia.com/mig.config"

# NVIDIA's charts select nodes by it. nodeadm sets it itself only for Kubernetes 1.35 and newer.
GPU_PRESENT: Final = "nvidia.com/gpu.present"

# Beginnings of labels that the GPU Operator, GPU Feature Discovery and Node Feature Discovery put on nodes
# themselves: that no template sets one does not mean that a node will not have it.
# Source: https://github.com/NVIDIA/gpu-operator/blob/v26.7.0/controllers/state_manager.go (2026-08-20)
OPERAND: Final = "nvidia.com/gpu.deploy."
MPS_CAPABLE: Final = "nvidia.com/mps.capable"
NODE_FEATURE: Final = "feature.node.kubernetes.io/"
SET_AT_RUN_TIME: Final = (OPERAND, MPS_CAPABLE, NODE_FEATURE)

# Cluster autoscaler takes a node with it for unready until it advertises GPUs. Without it, it launches a second
# node while the first one's device plugin starts.
ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
MIXED_ACCELERATORS: Final = "nvidia-mixed"

# Of Kubernetes and the cloud provider, with the names that they had before.
# Source: https://kubernetes.io/docs/reference/labels-annotations-taints/ (2026-08)
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
# Of Karpenter and EKS.
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

# Of AWS Load Balancer Controller: what it puts on all that it makes in AWS, by which of its namespaces it gives pods a
# readiness gate, and by which classes and annotations Ingresses and Services ask for load balancers.
# Sources: kubernetes-sigs/aws-load-balancer-controller v3.5.0 docs/deploy/pod_readiness_gate.md,
# docs/guide/ingress/annotations.md
LOAD_BALANCER_TAG: Final = "elbv2.k8s.aws/cluster"
READINESS_GATES: Final = "elbv2.k8s.aws/pod-readiness-gate-inject"
ALB: Final = "alb.ingress.kubernetes.io/"
ALB_CLASS: Final = "alb"
ALB_CONTROLLER: Final = "ingress.k8s.aws/alb"
NLB: Final = "service.beta.kubernetes.io/aws-load-balancer-"
NLB_CLASS: Final = "service.k8s.aws/nlb"

# Of the EBS CSI driver.
EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"

# Taints that nodes may be given until a storage driver runs on them.
EBS_NOT_READY: Final = "ebs.csi.aws.com/agent-not-ready"
EFS_NOT_READY: Final = "efs.csi.aws.com/agent-not-ready"
FSX_NOT_READY: Final = "fsx.csi.aws.com/agent-not-ready"
S3_NOT_READY: Final = "s3.csi.aws.com/agent-not-ready"

# Of EKS. Auto Mode's nodes carry the first with the value "auto", a managed group's the others.
COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
EKS_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
NODE_GROUP: Final = "eks.amazonaws.com/nodegroup"

# Of Karpenter.
# Source: https://karpenter.sh/v1.14/concepts/scheduling/
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
NODE_POOL: Final = "karpenter.sh/nodepool"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

# Of cluster autoscaler: it leaves the pod where it is.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

# Of Kueue and KAI: the queue that a workload waits in.
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
# On the templates of its pods: a label of nodes within one value of which they all run, and parts that go together.
# Source: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/ (0.19)
KUEUE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PODSET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
KAI_QUEUE: Final = "kai.scheduler/queue"

# Of LeaderWorkerSet: on its pods, and on itself.
# Source: kubernetes-sigs/lws 060ab4da1 api/leaderworkerset/v1/leaderworkerset_types.go (2026-11)
GROUPS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
EXCLUSIVE_GROUPS: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"

# Tags of Auto Scaling groups by which cluster autoscaler finds its own: the second with the cluster's name behind it.
# Source: kubernetes/autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md
AUTOSCALED_TAG: Final = "k8s.io/cluster-autoscaler/enabled"
AUTOSCALED_BY_TAG: Final = "k8s.io/cluster-autoscaler/"

# Beginnings of tags from which it reads what an empty group's nodes would be, and options of one group.
RESOURCE_TAG: Final = "k8s.io/cluster-autoscaler/node-template/resources/"
LABEL_TAG: Final = "k8s.io/cluster-autoscaler/node-template/label/"
TAINT_TAG: Final = "k8s.io/cluster-autoscaler/node-template/taint/"
OPTION_TAG: Final = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"

# Tag of whatever belongs to a cluster, with the cluster's name behind it.
CLUSTER_TAG: Final = "kubernetes.io/cluster/"
