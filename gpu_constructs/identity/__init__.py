"""Who pods are to AWS: a role for each of their service accounts."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
