"""The API server's changes to a pod, and its reasons to reject one."""
