"""The command ``gpu-constructs``."""
