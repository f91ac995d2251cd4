"""Typed values: clusters, pools, pods, taints, labels, answers."""
