"""Scenes: what a stack promises, played and judged."""
