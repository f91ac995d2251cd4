"""Who plays AWS, its services' machines and the kubelets, and starts the real programs between them.

A player may not know the answer: nothing here imports any other part of the library, its facts included.
"""
