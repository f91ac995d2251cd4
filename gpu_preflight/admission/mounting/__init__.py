"""Whether the API server takes what containers mount."""
