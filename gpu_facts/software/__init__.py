"""The DaemonSets inside Helm charts and EKS add-ons, which no template shows.

It is a manual table. Each row has its source and the date on which it was read. Software without a row is unknown, not
absent. DaemonSets for Windows are left out, because EKS has no GPU nodes with Windows.
"""
