"""What Argo CD and Flux bring into a cluster."""
