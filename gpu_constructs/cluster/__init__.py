"""A whole EKS cluster that GPU nodes can join: network, control plane, system nodes, add-ons, access."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
