"""Public registries of container images, which nodes without a way to the internet can't reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_facts.charts import DCGM_EXPORTER, DEVICE_PLUGIN, GPU_OPERATOR

NVIDIA_REGISTRY: Final = "nvcr.io"
# Any other registry may be in the VPC.
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
# Charts whose images are on nvcr.io by default, and the value that names another registry.
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
