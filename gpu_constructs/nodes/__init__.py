"""Node groups whose instances CloudFormation describes: AMI type, launch template, user data, role, group."""
