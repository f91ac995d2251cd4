"""Programs and schemas of others that stand in for an AWS account, asked about everything that is emitted."""
