"""Installation in a cluster: the cluster reference, manifests and charts, subnets, credentials."""
