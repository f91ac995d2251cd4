"""Pods, jobs and servers that request GPUs in a way that the scheduler and the autoscaler support."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
