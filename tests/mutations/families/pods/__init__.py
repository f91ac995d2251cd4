"""Mistakes in workloads that run on nodes."""
