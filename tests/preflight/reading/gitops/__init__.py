"""The objects that Argo CD and Flux install into a cluster."""
