"""How constructs apply things to a cluster: the cluster reference, manifests and charts, subnets, credentials."""
