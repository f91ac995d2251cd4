"""What a managed node group does not do by itself: tags of its Auto Scaling group, the window of a Capacity Block."""
