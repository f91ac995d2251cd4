"""Stacks to deploy as they are, or to copy."""
