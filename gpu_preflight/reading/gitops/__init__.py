"""What Argo CD and Flux bring into a cluster, as far as it stands in the input."""
