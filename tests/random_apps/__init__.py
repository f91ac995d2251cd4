"""Apps that a seed draws from the public options: a construct rejects an option, or the checker passes the app."""
