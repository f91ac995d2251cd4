"""Weights of models, and how they reach the pod that serves them."""
