"""Schemas of services, the code that checks against them, and tests of both."""
