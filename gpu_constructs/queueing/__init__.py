"""Who gets GPUs when there are not enough: queues and quotas over the pools, gangs, their controllers."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
