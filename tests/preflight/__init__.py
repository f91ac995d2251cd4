"""Preflight reads and checks the emitted objects."""
