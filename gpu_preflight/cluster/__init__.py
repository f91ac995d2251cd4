"""Builds a cluster from what was read: its pools, software, workloads, and what they refer to."""
