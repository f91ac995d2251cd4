"""The resources that eksctl creates from a ClusterConfig."""
