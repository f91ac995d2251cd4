"""Volumes of nodes."""
