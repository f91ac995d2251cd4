"""What is judged, as typed values: clusters, pools, pods, taints, labels, answers."""
