"""What the API server of EKS changes in a pod before it is scheduled, and which pods it rejects."""
