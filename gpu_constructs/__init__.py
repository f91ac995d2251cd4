"""GPU clusters on EKS as code.

The names that most apps need are here, the others in the folder that they belong to:
``from gpu_constructs.queueing import Kueue``. Values and the catalogue never load the CDK.
"""

from gpu_facts._version import __version__ as __version__
from gpu_facts.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
