"""Requests of a pod, which nodes accept it, and how many pods fit within the limits of the pools."""
