"""Storage that pods claim, and the CSI drivers that it needs."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
