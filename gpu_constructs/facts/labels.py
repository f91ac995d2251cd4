"""Names Kubernetes knows GPU nodes by: the resource, our labels, and those of others that we set."""

from __future__ import annotations

GPU_RESOURCE = "nvidia.com/gpu"

# Ours. Every GPU node carries both, whatever kind of pool it comes from.
POOL = "gpu-constructs.io/pool"
DEVICE_MANAGER = "gpu-constructs.io/device-manager"

# Only on nodes whose GPUs are shared: the name of the profile, by which a device plugin of its own selects them.
SHARING = "gpu-constructs.io/sharing"

# Only on nodes with EFA interfaces; EFA's device plugin selects by it.
EFA = "gpu-constructs.io/efa"
EFA_RESOURCE = "vpc.amazonaws.com/efa"

# The GPU Operator gives a node's device plugin the part of its configuration that this label names.
# Source: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
OPERATOR_CONFIG = "nvidia.com/device-plugin.config"

# NVIDIA's charts select nodes by it. nodeadm sets it itself only for Kubernetes 1.35 and newer.
GPU_PRESENT = "nvidia.com/gpu.present"

# Cluster autoscaler takes a node with it for unready until it advertises GPUs. Without it, it launches a second
# node while the first one's device plugin starts.
ACCELERATOR = "k8s.amazonaws.com/accelerator"
MIXED_ACCELERATORS = "nvidia-mixed"

# EKS Auto Mode nodes carry it with the value "auto".
AUTO_MODE_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"

# Prefix of node group tags from which cluster autoscaler reads what an empty group's nodes would offer.
TEMPLATE_RESOURCE_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
