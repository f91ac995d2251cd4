"""Mistakes in what runs on nodes."""
