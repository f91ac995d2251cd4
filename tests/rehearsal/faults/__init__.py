"""Apps on disk with one planted fault each, and correct apps.

`check`, `review` and the rehearsal must report the faults, and report none in the correct apps.

`catalogue.py` lists them and yields their folders.
"""
