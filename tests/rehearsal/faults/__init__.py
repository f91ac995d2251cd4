"""Apps on disk with one planted fault each, and correct apps: `check`, `review` and the rehearsal must tell them apart.

`catalogue.py` lists them and yields their folders.
"""
