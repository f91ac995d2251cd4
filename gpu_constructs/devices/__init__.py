"""What makes the GPUs of a node visible to Kubernetes. Exactly one device manager runs on a node."""
