"""Schemas of services, their judge, and judges of it."""
