"""A whole EKS cluster that GPU nodes can join: network, control plane, system nodes, add-ons, access."""
