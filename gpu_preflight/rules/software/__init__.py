"""Add-ons, definitions, and what happens to nodes while they run."""
