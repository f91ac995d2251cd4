"""Scaling of replicas by GPU use or pending work, and of CPU and memory requests."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
