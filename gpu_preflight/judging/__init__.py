"""What is told of a case: findings, verdicts, and what a change means."""
