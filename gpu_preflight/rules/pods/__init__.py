"""Pods that no node takes, or that wait for something else."""
