"""Scenarios: each checks promises of a running stack."""
