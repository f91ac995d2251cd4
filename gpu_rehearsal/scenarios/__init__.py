"""Scenarios: each checks promises of a stack on a stage."""
