"""Cluster autoscaler, and what it knows of groups."""
