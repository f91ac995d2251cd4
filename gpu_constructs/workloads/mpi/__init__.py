"""Programs over several nodes that MPI starts."""
