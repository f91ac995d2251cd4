"""What eksctl makes of a ClusterConfig."""
