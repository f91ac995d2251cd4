"""Who reaches a cluster, and from where."""
