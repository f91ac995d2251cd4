"""The version of this library, where whoever needs it loads nothing else."""

__version__ = "0.1.0a1"
