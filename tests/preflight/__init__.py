"""Preflight: what was emitted is read and judged."""
