"""More pods when GPUs are busy or work waits, and requests of the right size."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
