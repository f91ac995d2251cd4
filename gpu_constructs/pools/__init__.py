"""Values that describe a pool of GPU nodes. They import no AWS library."""

from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
