"""EKS: clusters, who gets into them, add-ons, identities of pods, and managed node groups with real instances."""
