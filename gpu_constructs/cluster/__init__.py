"""A complete EKS cluster for GPU nodes: network, control plane, system nodes, add-ons, access."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
