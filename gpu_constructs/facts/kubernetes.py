"""What Kubernetes itself fixes: how labels are written, which conditions the nodes of EKS report."""

from __future__ import annotations

import re
from typing import Literal

# Optional DNS prefix, then at most 63 characters.
# Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (2026-08)
QUALIFIED_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

# Conditions of the node monitoring agent, and those of kubelet that it passes on.
# Source: aws/eks-node-monitoring-agent v1.7.0 pkg/conditions/conditions.go
NodeCondition = Literal[
    "AcceleratedHardwareReady",
    "ContainerRuntimeReady",
    "DiskPressure",
    "KernelReady",
    "MemoryPressure",
    "NetworkingReady",
    "Ready",
    "StorageReady",
]
