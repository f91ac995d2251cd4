"""Mistakes in the objects that create nodes."""
