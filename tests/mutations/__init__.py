"""Mistakes that people make, made in inputs that are right: what share of them preflight finds."""
