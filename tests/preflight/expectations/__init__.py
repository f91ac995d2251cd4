"""Inputs with expectations that were written before the checker read them, and a score."""
