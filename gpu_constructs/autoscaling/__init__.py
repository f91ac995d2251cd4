"""Components that add and remove nodes: cluster autoscaler for node groups, Karpenter for its own pools."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
