"""Checks values against the schemas of the services that accept them."""
