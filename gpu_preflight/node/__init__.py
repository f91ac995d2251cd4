"""What a node of a pool will have, and what its autoscaler expects of it."""
