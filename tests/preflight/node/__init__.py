"""The future nodes of a pool."""
