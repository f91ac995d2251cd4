"""Programs and schemas of upstream that replace an AWS account and check every emitted object."""
