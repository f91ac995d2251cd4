"""Facts about the hardware that EC2 sells. It doesn't import the CDK or boto3."""

from gpu_facts.light import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
