"""Pod Identity: an IAM role for a service account."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
