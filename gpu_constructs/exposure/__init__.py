"""Access for clients outside a cluster: load balancers and their controller."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
