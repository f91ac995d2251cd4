"""What one cluster has, of what was read."""
