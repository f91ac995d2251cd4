"""The plays: every stack of this repository and how it is synthesized to be played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_constructs.rehearsal.assemblies import Assembly, synthesize

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
_FLAGS: Mapping[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
# What CDK would look up with credentials, of the accounts that examples name.
_ZONES = {
    f"availability-zones:account={account}:region={region}": [f"{region}{letter}" for letter in "abc"]
    for account in ("111122223333", "444455556666")
    for region in ("us-east-1", "eu-west-1")
}


@dataclass(frozen=True, kw_only=True)
class Play:
    """Stacks that are played together.

    Attributes:
        app: The Python file that makes them, from the root of the repository.
        stacks: Names of those that are played, in the order of deployment; empty for all.
        context: Context of the CDK beside that of ``cdk.json``.
        holds: Promises that must be played, and hold.
    """

    app: str
    stacks: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()

    @property
    def newer(self) -> bool:
        """Whether it runs on a newer Kubernetes than the default."""
        return "kubernetes_version" in self.context

    def assemblies(self, folder: Path) -> list[Assembly]:
        """Synthesize the stacks into a folder, and files for Argo CD or Flux into one in it."""
        files = folder / "files"
        context = {"gpu-constructs:manifests": str(files), **self.context}
        made = {each.stack: each for each in assemblies_of(ROOT / self.app, folder, context)}
        played = [made[each] for each in self.stacks] or list(made.values())
        if _DELIVERY not in self.context:
            return played
        return [replace(each, files=files / each.stack) for each in played]


def assemblies_of(app: Path, folder: Path, context: Mapping[str, Any]) -> list[Assembly]:
    """Synthesize all stacks of an app as `cdk synth` does here, with the flags of ``cdk.json``."""
    return synthesize(app, folder, root=ROOT, region=REGION, context={**_FLAGS, **_ZONES, **context})


_KARPENTER = {"autoscaler": "karpenter"}
_DELIVERY = "gpu-constructs:delivery"
_STAGING = tuple(f"staging-us-east-1-{each}" for each in ("Cluster", "Pools1", "Pools2"))
# The first is the short form, which the gate plays too.
PLAYS: Mapping[str, Play] = {
    "default-karpenter": Play(
        app="app.py",
        stacks=("GpuClusterStack",),
        context=_KARPENTER,
        holds=frozenset({"every pod that the stack brings runs", "pool gpu: one node for one pod"}),
    ),
    "default": Play(app="app.py", stacks=("GpuClusterStack",)),
    "newest-kubernetes": Play(
        app="app.py", stacks=("GpuClusterStack",), context=_KARPENTER | {"kubernetes_version": "1.37"}
    ),
    "argocd": Play(app="app.py", stacks=("GpuClusterStack",), context=_KARPENTER | {_DELIVERY: "argocd"}),
    "flux": Play(app="app.py", stacks=("GpuClusterStack",), context=_KARPENTER | {_DELIVERY: "flux"}),
    "quickstart": Play(app="examples/quickstart/app.py"),
    "shared-notebooks": Play(app="examples/shared_notebooks/app.py"),
    "llm-service": Play(app="examples/llm_service/app.py"),
    "model-from-s3": Play(app="examples/model_from_s3/app.py"),
    "dra-pool": Play(app="examples/dra_pool/app.py"),
    "training": Play(app="examples/reference_stacks/app.py", stacks=("Training",)),
    "inference": Play(app="examples/reference_stacks/app.py", stacks=("Inference",)),
    "auto-mode": Play(app="examples/reference_stacks/app.py", stacks=("AutoMode",)),
    "multi-node-training": Play(app="examples/multi_node_training/app.py"),
    "training-on-lustre": Play(app="examples/training_on_lustre/app.py"),
    "mig-on-p5": Play(app="examples/mig_on_p5/app.py"),
    "fleet": Play(app="examples/fleet/app.py", stacks=_STAGING),
    "existing-cluster": Play(app="examples/existing_cluster/app.py", stacks=("GpuResearch",)),
}
