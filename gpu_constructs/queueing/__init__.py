"""Queues, quotas and gangs for jobs when there are fewer GPUs than jobs request, and their controllers."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
