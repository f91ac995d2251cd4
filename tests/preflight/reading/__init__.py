"""Bytes, documents and values."""
