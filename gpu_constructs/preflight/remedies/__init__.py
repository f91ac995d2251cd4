"""What would make a workload run: the smallest change, judged before it is told."""
