"""Values that are judged."""
