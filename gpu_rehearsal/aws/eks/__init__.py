"""EKS: clusters, access entries, add-ons, Pod Identity, and managed node groups with instances."""
