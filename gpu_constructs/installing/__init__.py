"""How anything reaches a cluster: the cluster itself, who applies manifests and charts, subnets, credentials."""
