"""Who may do what in the cluster, and who did."""
