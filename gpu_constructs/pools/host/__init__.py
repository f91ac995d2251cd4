"""What the machine beneath a node gets beside what GPUs need: ways past the choices of this library."""
