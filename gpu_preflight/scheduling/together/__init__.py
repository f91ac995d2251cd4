"""Several workloads at once: where their pods go, and which of them keep each other away."""
