"""Real files of other people, which preflight judges: what it calls an error for certain is one, and nothing fails."""
