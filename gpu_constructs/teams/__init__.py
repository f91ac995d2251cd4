"""Teams that share a cluster: people, namespaces and quotas."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
