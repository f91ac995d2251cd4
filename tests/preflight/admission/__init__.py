"""What the API server adds to a pod, and when it refuses one."""
