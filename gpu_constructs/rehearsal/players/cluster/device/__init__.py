"""What makes the devices of a node known: NVIDIA's device plugin and its sharing, EFA's plugin, NVIDIA's DRA driver."""
