"""Names of resources that pods request of nodes, besides CPU and memory."""

from __future__ import annotations

from typing import Final

# Disk of the node, for container layers, logs and emptyDirs.
DISK: Final = "ephemeral-storage"

# Whatever NVIDIA's device managers register begins with it: GPUs, their shares and their slices.
NVIDIA: Final = "nvidia.com/"
GPU: Final = "nvidia.com/gpu"

# What the device plugin appends to the name of a GPU that it shares, so that no pod that asks for a whole one lands
# on a share. Source: NVIDIA/k8s-device-plugin v0.20.0 README.md, "renameByDefault"
SHARED: Final = ".shared"
SHARED_GPU: Final = f"{GPU}{SHARED}"

# What HAMi's scheduler reads of pods beside GPUs, and no node has: memory in MiB, shares in percent, a priority.
# Source: Project-HAMi/HAMi docs/config.md, and kubernetes-sigs/kueue v0.19.2 sample-hami.yaml (2026-08)
OF_HAMI: Final = (
    "nvidia.com/gpucores",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/priority",
)

# The names of MIG slices begin with it where slices of several sizes are told apart.
MIG: Final = "nvidia.com/mig-"

# The class of devices by which pods claim GPUs, and the driver that has them.
# Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/templates/
DEVICE_CLASS: Final = "gpu.nvidia.com"

# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html (2026-08)
EFA: Final = "vpc.amazonaws.com/efa"
HUGE_PAGES: Final = "hugepages-2Mi"
HUGE_PAGE_MIB: Final = 2
# Pages that AL2023's EFA driver sets aside; Bottlerocket is told to.
EFA_HUGE_PAGES: Final = 5_128
