"""Pods that ask for GPUs the way the scheduler and the autoscaler understand."""
