"""Mistakes that people make, made in correct inputs, and the share of them that preflight finds."""
