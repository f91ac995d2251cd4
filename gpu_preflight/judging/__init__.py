"""Results of a case: findings, the answer for each workload, and what a change means."""
