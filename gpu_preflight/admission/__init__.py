"""What the API server of EKS adds to a pod before anything schedules it, and when it refuses one."""
