"""Builds a cluster from the input: pools, software, workloads, and references between them."""
