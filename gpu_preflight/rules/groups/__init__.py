"""Node groups, their launch templates, and how their nodes join."""
