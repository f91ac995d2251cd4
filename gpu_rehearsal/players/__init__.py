"""Simulators of AWS, nodes, kubelets and registries, which also start the real programs between them.

Nothing here imports another part of the library, its facts included, so that a simulator can't repeat its mistakes.
"""
