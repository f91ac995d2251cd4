"""The resources of a pool's node, and the autoscaler's view of them."""
