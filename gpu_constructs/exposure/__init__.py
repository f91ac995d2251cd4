"""How clients outside a cluster reach the pods that serve: load balancers, and the controller that makes them."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
