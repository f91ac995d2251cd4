"""The types of resources that are played, each with the calls that make one."""
