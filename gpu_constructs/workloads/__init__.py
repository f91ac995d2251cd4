"""Pods, jobs and servers that request GPUs so that the scheduler and the autoscaler understand them."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
