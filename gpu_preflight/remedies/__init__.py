"""Fixes for Pending workloads, the pool first and a smaller pod last. Each is applied to the input and checked."""
