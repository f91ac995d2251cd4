"""The effects of a second deployment of a changed app on the resources of the first one."""
