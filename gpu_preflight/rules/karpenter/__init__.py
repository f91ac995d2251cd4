"""NodePools, node classes, and what runs them."""
