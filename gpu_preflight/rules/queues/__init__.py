"""Queues in which jobs wait."""
