"""Doctor: dumps with known causes, and a cluster that fails."""
