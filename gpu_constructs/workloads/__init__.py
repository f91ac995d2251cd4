"""Pods that ask for GPUs the way the scheduler and the autoscaler understand."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
