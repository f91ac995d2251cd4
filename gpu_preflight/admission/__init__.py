"""Changes that the API server of EKS makes to a pod before it is scheduled, and pods that it rejects."""
