"""Stacks to deploy unchanged, or to copy."""
