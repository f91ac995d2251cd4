"""Why a GPU pod of a running cluster doesn't run, from the output of kubectl and the AWS CLI."""
