"""The version of this library, in a module without imports."""

__version__ = "0.1.0a1"
