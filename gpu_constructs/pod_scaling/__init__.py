"""More replicas when GPUs are busy or work waits, and right-sized requests."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
