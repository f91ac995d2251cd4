"""Random arguments: an error states the reason, and accepted values render completely. Bounded, with a fixed seed."""
