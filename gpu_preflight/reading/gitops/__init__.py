"""Objects that Argo CD and Flux deploy into a cluster, as far as they are in the input."""
