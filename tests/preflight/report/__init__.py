"""The results in every output format."""
