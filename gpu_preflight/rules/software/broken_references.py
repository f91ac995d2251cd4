"""References of kustomizations and GitOps objects that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.rules.rule import Problem, rule

_KUSTOMIZE = "https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/"


@rule("GPU492", "error", source=_KUSTOMIZE)
def reference_to_a_file_or_source_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Kustomization, Application or release refers to something that doesn't exist.

    kustomize, Argo CD or Flux fails, and none of its objects reaches the cluster. A patch whose target selects nothing
    is ignored: tolerations, GPUs or replicas stay as they were.

    Fix: Correct the name, or add the file, the folder or the source.
    """
    for each in case.cluster.broken:
        yield Problem(each, each.text, unknown=each.unsure or each.silent)
