"""Values that describe a pool of GPU nodes. They don't import the CDK."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
