"""The plays: stacks of this repository, and how each is synthesized for a rehearsal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly, read
from tools.changes_played import CHANGES

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
_FLAGS: Mapping[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Stacks that are played together.

    Attributes:
        app: Path of the Python file that creates them, in the repository.
        stacks: Names of the played stacks, in the order of deployment; empty for all.
        context: Context of the CDK in addition to that of ``cdk.json``.
        require: Names that must be tried, as for `Report.not_tried`.
        updates: Successive changes of its only stack: additional context, or a text of the app and its replacement.
        tolerate: Keys of taints that jobs tolerate in addition to the GPU taint.
    """

    app: str
    stacks: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    require: tuple[str, ...] = ("Create", "Scale", "Permissions", "Destroy")
    updates: tuple[Mapping[str, Any] | tuple[str, str], ...] = ()
    tolerate: tuple[str, ...] = ()

    @property
    def newer(self) -> bool:
        """Whether it runs on a newer Kubernetes than the default."""
        return "kubernetes_version" in self.context

    @property
    def updated(self) -> bool:
        """Whether its stack is updated."""
        return bool(self.updates) or self.app == _CHANGED

    def versions(self, folder: Path, most: int | None = None) -> list[tuple[str, Assembly]]:
        """Synthesize versions of the only stack, each with one more update, with the names of the updates.

        Args:
            folder: Folder for their assemblies.
            most: Max number of updates. Default: all.

        Raises:
            ValueError: The play has several stacks, or an update replaces a text that the app doesn't have.
        """
        if self.app == _CHANGED:
            changes = CHANGES[:most]
            _run_app(ROOT / self.app, folder, {}, CHANGES=str(len(changes)))
            names = ["", *(f"{name}.{option}" for name, option, _ in changes)]
            return [(name, read(folder / f"{number:02}", region=REGION)[0]) for number, name in enumerate(names)]
        first, *others = self.assemblies(folder)
        if others:
            raise ValueError(f"{self.app}: a play with updates must have one stack, got {len(others) + 1}; set stacks")
        made = [("", first)]
        app, context = (ROOT / self.app).read_text(), dict(self.context)
        for number, update in enumerate(self.updates[:most], start=1):
            if isinstance(update, Mapping):
                context |= update
                what = json.dumps(update)
            else:
                old, new = update
                if old not in app:
                    raise ValueError(f"{self.app}: update {number} replaces {old!r}, which the app doesn't have")
                app, what = app.replace(old, new), f"{old} becomes {new}"
            file = folder / f"app_{number}.py"
            file.write_text(app)
            stacks = {each.stack: each for each in synthesize_app(file, folder / str(number), context)}
            made.append((what, stacks[made[0][1].stack]))
        return made

    def assemblies(self, folder: Path) -> list[Assembly]:
        """Synthesize the stacks into a folder."""
        made = {each.stack: each for each in synthesize_app(ROOT / self.app, folder, self.context)}
        return [made[each] for each in self.stacks] or list(made.values())


def synthesize_app(app: Path, folder: Path, context: Mapping[str, Any]) -> list[Assembly]:
    """Run an app as `cdk synth` does here, with the flags of ``cdk.json``, and return its stacks in deployment order.

    Raises:
        RuntimeError: The app failed. The message has the end of its output.
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


_ALL = ("Create", "Failure", "Scale", "Update", "Permissions", "Destroy")
_CHANGED = "tools/changes_played.py"
_KARPENTER = {"autoscaler": "karpenter"}
_POOL = {"name": "gpu", "instance_types": ["g6.xlarge"]}
# Updates of the default stack. The last two replace nodes.
_UPDATES: tuple[Mapping[str, Any], ...] = (
    {"pools": [_POOL | {"max_nodes": 6}]},
    {"public_access_cidrs": ["203.0.113.0/24"]},
    {"pools": [_POOL | {"max_nodes": 6, "disk_gib": 250}]},
    {"tags": {"team": "research"}},
)
_STAGING = tuple(f"staging-us-east-1-{each}" for each in ("Cluster", "Pools1", "Pools2"))
# The gate (.ci/run) runs default-karpenter with --short.
PLAYS: Mapping[str, Play] = {
    "default-karpenter": Play(
        app="app.py",
        stacks=("GpuClusterStack",),
        context=_KARPENTER,
        require=(
            "every pod that the stack installs runs",
            "pool gpu: one node for one pod",
            "Permissions",
            "Failure",
            "Update",
            "Destroy",
        ),
        updates=_UPDATES,
    ),
    "updates": Play(
        app=_CHANGED,
        require=("Create", "Scale", "Permissions", "Update", "Destroy"),
        # The last change adds this taint.
        tolerate=("example.com/team",),
    ),
    "default": Play(app="app.py", stacks=("GpuClusterStack",), require=_ALL, updates=_UPDATES),
    "newest-kubernetes": Play(
        app="app.py", stacks=("GpuClusterStack",), context=_KARPENTER | {"kubernetes_version": "1.37"}
    ),
    "quickstart": Play(
        app="examples/quickstart/app.py",
        require=_ALL,
        updates=(
            ("max_nodes=8", "max_nodes=12"),
            ('GpuCluster(stack, "Gpu")', 'GpuCluster(stack, "Gpu", log_days=30)'),
            ('"g6.xlarge"', '"g6.2xlarge"'),
        ),
    ),
    "shared-notebooks": Play(
        app="examples/shared_notebooks/app.py",
        require=_ALL,
        updates=(
            ("replicas=2", "replicas=3"),
            ("UpTo(gpus=8)", "UpTo(gpus=12)"),
            ("shm_gib=1", "shm_gib=2"),
            ("TimeSlicing(4)", "TimeSlicing(6)"),
        ),
    ),
    "llm-service": Play(app="examples/llm_service/app.py"),
    "model-from-s3": Play(app="examples/model_from_s3/app.py"),
    "dra-pool": Play(app="examples/dra_pool/app.py"),
    "training": Play(app="examples/reference_stacks/app.py", stacks=("Training",)),
    "inference": Play(app="examples/reference_stacks/app.py", stacks=("Inference",)),
    # The autoscaler of Auto Mode only runs at AWS.
    "auto-mode": Play(
        app="examples/reference_stacks/app.py", stacks=("AutoMode",), require=("Create", "Permissions", "Destroy")
    ),
    "multi-node-training": Play(app="examples/multi_node_training/app.py"),
    "training-on-lustre": Play(app="examples/training_on_lustre/app.py"),
    "mig-on-p5": Play(app="examples/mig_on_p5/app.py"),
    "fleet": Play(app="examples/fleet/app.py", stacks=_STAGING),
    "existing-cluster": Play(app="examples/existing_cluster/app.py", stacks=("GpuResearch",)),
}
