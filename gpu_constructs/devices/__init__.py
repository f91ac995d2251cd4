"""What makes the GPUs of a node visible to Kubernetes. Exactly one device manager runs on a node."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
