"""Pod Identity: an IAM role for a service account."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
