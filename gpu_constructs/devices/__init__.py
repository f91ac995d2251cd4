"""Components that advertise the GPUs of a node to Kubernetes. Each node has exactly one device manager."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
