"""Who may do what: the policies of a role, judged for each call as IAM would, and never in doubt for the caller."""
