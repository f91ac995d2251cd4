"""Images of nodes and what runs on them first."""
