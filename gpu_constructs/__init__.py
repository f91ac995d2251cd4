"""GPU clusters on EKS as code.

This package has the names that most apps need. The others are in the folder of their subject:
``from gpu_constructs.queueing import Kueue``. Value classes and the catalogue never load the CDK.
"""

from gpu_facts._version import __version__ as __version__
from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
