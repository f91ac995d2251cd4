"""From what was read to a cluster: its pools, its software, its workloads, and what they refer to."""
