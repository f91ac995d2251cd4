"""What scales pods, and by which measurement."""
