"""The objects of one cluster, out of the input."""
