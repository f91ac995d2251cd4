"""Rehearsal: a synthesized stack on real Kubernetes binaries and simulated AWS APIs.

`aws`, `cloudformation`, `cluster` and `internet` simulate AWS, nodes and registries. They import no facts of this
library, so that a simulator can't repeat its mistakes. `stage` starts them, `scenarios` check the promises of a
stack, and `report` renders the results. Needs the extra ``rehearsal`` and the binaries of ``make e2e-tools``.
"""
