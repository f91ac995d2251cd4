"""What nodes of a pool will be."""
