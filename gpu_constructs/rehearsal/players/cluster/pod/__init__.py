"""One pod as its kubelet sees it: what it waits for, what its containers are given, and what is reported of it."""
