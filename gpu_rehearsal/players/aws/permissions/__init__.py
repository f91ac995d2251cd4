"""IAM permissions: each call is checked against the policies of its role."""
