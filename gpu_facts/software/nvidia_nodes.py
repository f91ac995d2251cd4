"""Labels by which NVIDIA's charts recognize GPU nodes."""

from __future__ import annotations

from gpu_facts import labels
from gpu_facts.software.model import any_label

NVIDIA_DEVICE = f"{labels.NODE_FEATURE}pci-10de.present=true"
NVIDIA_CPU = f"{labels.NODE_FEATURE}cpu-model.vendor_id=NVIDIA"
GPU_PRESENT = f"{labels.GPU_PRESENT}=true"
NODES_WITH_GPUS = any_label(NVIDIA_DEVICE, NVIDIA_CPU, GPU_PRESENT)
NVIDIA_DISPLAYS = tuple(f"{labels.NODE_FEATURE}pci-{code}_10de.present=true" for code in ("0302", "0300"))
MPS = "-mps-control-daemon"
MPS_CAPABLE = {labels.MPS_CAPABLE: "true"}
