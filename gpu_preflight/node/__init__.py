"""What a node of a pool will be, and what its autoscaler expects of it."""
