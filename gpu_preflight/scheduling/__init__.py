"""What a pod requests, which nodes accept it, and how many pods fit within the limits of the pools."""
