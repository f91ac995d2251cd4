"""The values that preflight checks."""
