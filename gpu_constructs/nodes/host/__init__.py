"""How the machine beneath a node gets what stack and pool say of it: tags, parts of its user data."""
