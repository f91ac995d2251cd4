"""What adds and removes nodes: cluster autoscaler for node groups, Karpenter for its own pools."""
