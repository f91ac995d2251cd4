"""Names of resources that pods request, in addition to CPU and memory."""

from __future__ import annotations

from typing import Final

# Disk of the node, for container layers, logs and emptyDirs.
DISK: Final = "ephemeral-storage"

# Prefix of all resources of NVIDIA's device managers: GPUs, their shares and their slices.
NVIDIA: Final = "nvidia.com/"
GPU: Final = "nvidia.com/gpu"

# Suffix of a shared GPU's name in the device plugin, so that a pod that requests a whole GPU doesn't run on a
# share. Source: NVIDIA/k8s-device-plugin v0.20.0 README.md, "renameByDefault"
SHARED: Final = ".shared"
SHARED_GPU: Final = f"{GPU}{SHARED}"

# Resources that HAMi's scheduler reads from pods and that no node has: memory in MiB, shares in percent, a priority.
# Source: Project-HAMi/HAMi docs/config.md, and kubernetes-sigs/kueue v0.19.2 sample-hami.yaml (2026-08)
OF_HAMI: Final = ("nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/priority")

# Prefix of MIG slices if slices of several sizes have different names.
MIG: Final = "nvidia.com/mig-"

# The device class with which pods claim GPUs, and its driver.
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/
DEVICE_CLASS: Final = "gpu.nvidia.com"

# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html (2026-08)
EFA: Final = "vpc.amazonaws.com/efa"
HUGE_PAGES: Final = "hugepages-2Mi"
HUGE_PAGE_MIB: Final = 2
# Huge pages that AL2023's EFA driver reserves. On Bottlerocket a setting reserves them.
EFA_HUGE_PAGES: Final = 5_128
