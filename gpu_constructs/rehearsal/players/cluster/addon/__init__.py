"""What add-ons of EKS run in a cluster."""
