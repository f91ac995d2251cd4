"""The results of a case."""
