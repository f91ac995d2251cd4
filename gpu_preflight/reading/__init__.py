"""From bytes to typed things: documents, templates, values that only deployment tells."""
