"""Arguments that nobody would write: what is refused says why, and what is taken renders whole. Bounded, and seeded."""
