"""Rehearsal: a synthesized stack on real Kubernetes binaries and simulated AWS APIs.

`players` simulate AWS, nodes and registries, and import nothing else of this library. `stage` starts them, `scenes` are
scenarios that check what a stack promises, and `report` renders the results. Needs the extra ``rehearsal`` and the
binaries of ``make e2e-tools``.
"""
