"""Servers whose model takes the GPUs of several nodes."""
