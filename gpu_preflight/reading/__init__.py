"""Reads files: documents, templates, and values that only deployment knows."""
