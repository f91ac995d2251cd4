"""Results of a case: findings, the answer for each workload, and the effects of a change."""
