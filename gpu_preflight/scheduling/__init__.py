"""What a pod asks for, which nodes take it, and how far the limits of pools reach."""
