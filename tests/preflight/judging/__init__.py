"""What is told of a case."""
