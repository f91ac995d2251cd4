"""Reads what was emitted and says before deployment why a GPU pod would stay Pending. Knows no AWS library."""
