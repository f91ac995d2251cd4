"""Clusters and pods of every kind that a scheduler tells apart, which Hypothesis draws and shrinks to small YAML."""
