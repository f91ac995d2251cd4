"""The plays: every stack of this repository and how it is synthesized to be played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_constructs.rehearsal.assemblies import Assembly, read
from tools.changes_played import CHANGES

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
_FLAGS: Mapping[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Stacks that are played together.

    Attributes:
        app: The Python file that makes them, from the root of the repository.
        stacks: Names of those that are played, in the order of deployment; empty for all.
        context: Context of the CDK beside that of ``cdk.json``.
        require: What must be tried, as for `Report.not_tried`.
        updated: Whether the app makes versions of one stack, as tools/changes_played.py does.
    """

    app: str
    stacks: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    require: tuple[str, ...] = ("Create", "Scale", "Permissions", "Destroy")
    updated: bool = False

    @property
    def newer(self) -> bool:
        """Whether it runs on a newer Kubernetes than the default."""
        return "kubernetes_version" in self.context

    def versions(self, folder: Path, changes: int) -> list[tuple[str, Assembly]]:
        """Synthesize versions of one stack, each with a change more, and what the change is.

        Args:
            folder: Where their assemblies go.
            changes: How many changes.
        """
        _run_app(ROOT / self.app, folder, {}, CHANGES=str(changes))
        names = ["", *(f"{name}.{option}" for name, option, _ in CHANGES[:changes])]
        return [(name, read(folder / f"{number:02}", region=REGION)[0]) for number, name in enumerate(names)]

    def assemblies(self, folder: Path) -> list[Assembly]:
        """Synthesize the stacks into a folder."""
        made = {each.stack: each for each in assemblies_of(ROOT / self.app, folder, self.context)}
        return [made[each] for each in self.stacks] or list(made.values())


def assemblies_of(app: Path, folder: Path, context: Mapping[str, Any]) -> list[Assembly]:
    """Run an app as `cdk synth` does here, with the flags of ``cdk.json``, and return its stacks in deployment order.

    Raises:
        RuntimeError: The app failed, with its last words.
    """
    _run_app(app, folder, context)
    return read(folder, region=REGION)


def _run_app(app: Path, folder: Path, context: Mapping[str, Any], **variables: str) -> None:
    environment = os.environ | {
        "CDK_OUTDIR": str(folder),
        "CDK_DEFAULT_REGION": REGION,
        "CDK_CONTEXT_JSON": json.dumps({**_FLAGS, **context}),
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, str(app)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{app.name}: synthesis failed\n{done.stderr[-2000:]}")


_KARPENTER = {"autoscaler": "karpenter"}
_STAGING = tuple(f"staging-us-east-1-{each}" for each in ("Cluster", "Pools1", "Pools2"))
# The first is the short form, which the gate plays too.
PLAYS: Mapping[str, Play] = {
    "default-karpenter": Play(
        app="app.py",
        stacks=("GpuClusterStack",),
        context=_KARPENTER,
        require=(
            "every pod that the stack brings runs",
            "pool gpu: one node for one pod",
            "Permissions",
            "Failure",
            "Destroy",
        ),
    ),
    "updates": Play(
        app="tools/changes_played.py", require=("Create", "Scale", "Permissions", "Update", "Destroy"), updated=True
    ),
    "default": Play(app="app.py", stacks=("GpuClusterStack",)),
    "newest-kubernetes": Play(
        app="app.py", stacks=("GpuClusterStack",), context=_KARPENTER | {"kubernetes_version": "1.37"}
    ),
    "quickstart": Play(app="examples/quickstart/app.py"),
    "shared-notebooks": Play(app="examples/shared_notebooks/app.py"),
    "llm-service": Play(app="examples/llm_service/app.py"),
    "model-from-s3": Play(app="examples/model_from_s3/app.py"),
    "dra-pool": Play(app="examples/dra_pool/app.py"),
    "training": Play(app="examples/reference_stacks/app.py", stacks=("Training",)),
    "inference": Play(app="examples/reference_stacks/app.py", stacks=("Inference",)),
    # The autoscaler of Auto Mode runs at AWS only.
    "auto-mode": Play(
        app="examples/reference_stacks/app.py", stacks=("AutoMode",), require=("Create", "Permissions", "Destroy")
    ),
    "multi-node-training": Play(app="examples/multi_node_training/app.py"),
    "training-on-lustre": Play(app="examples/training_on_lustre/app.py"),
    "mig-on-p5": Play(app="examples/mig_on_p5/app.py"),
    "fleet": Play(app="examples/fleet/app.py", stacks=_STAGING),
    "existing-cluster": Play(app="examples/existing_cluster/app.py", stacks=("GpuResearch",)),
}
