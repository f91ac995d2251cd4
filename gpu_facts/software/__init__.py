"""The DaemonSets inside Helm charts and EKS add-ons, which no template shows.

A table by hand, each row with its source and the day of what was read. What is in no row is unknown, not absent.
DaemonSets for Windows are left out: no node with a GPU of EKS runs it.
"""
