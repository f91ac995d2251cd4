"""Objects of which an operator makes pods, in forms of its own."""
