"""What a pod is made of beside its GPUs: mounts, environment, containers that run before, and the last word on it."""
