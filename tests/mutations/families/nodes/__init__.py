"""Mistakes in what makes nodes."""
