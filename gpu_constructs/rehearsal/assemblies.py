"""Cloud assemblies: what `cdk synth` leaves for a deployment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """One stack of a synthesized app.

    Attributes:
        stack: Name of the stack.
        folder: Folder of the app's assembly, with the assets.
        file: File of the stack's template.
        template: The stack's template.
        region: Region that it goes to.
        account: Account that it goes to; empty where the stack says none.
        files: Folder of its files for Argo CD or Flux; ``None`` where the deployment applies everything.
    """

    stack: str
    folder: Path
    file: Path
    template: Mapping[str, Any]
    region: str
    account: str = ""
    files: Path | None = None


def synthesize(app: Path, folder: Path, *, root: Path, region: str, context: Mapping[str, Any]) -> list[Assembly]:
    """Run an app, and return its stacks in the order of deployment.

    Args:
        app: The Python file of the app.
        folder: Where the assembly goes.
        root: Folder of the repository, in which the app runs.
        region: Region of stacks that say none.
        context: Context of the CDK.

    Raises:
        RuntimeError: The app failed, with its last words.
    """
    environment = os.environ | {
        "CDK_OUTDIR": str(folder),
        "CDK_DEFAULT_REGION": region,
        "CDK_CONTEXT_JSON": json.dumps(dict(context)),
        "PYTHONPATH": str(root),
    }
    done = subprocess.run(
        [sys.executable, str(app)], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{app.name}: synthesis failed\n{done.stderr[-2000:]}")
    return read(folder, region=region)


def read(folder: Path, *, region: str) -> list[Assembly]:
    """Return the stacks of an assembly and of its stages, each after those of its own stage that it depends on.

    Args:
        folder: A folder like ``cdk.out``.
        region: Region of stacks that say none.
    """
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    stages = [each for each in artifacts.values() if each["type"] == "cdk:cloud-assembly"]
    nested = (read(folder / each["properties"]["directoryName"], region=region) for each in stages)
    return [_stack(folder, name, stacks[name], region) for name in _in_order(stacks)] + [
        each for stage in nested for each in stage
    ]


def _in_order(stacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    waited_for = {
        name: {each for each in said.get("dependencies", ()) if each in stacks} for name, said in stacks.items()
    }
    return list(TopologicalSorter(waited_for).static_order())


def _stack(folder: Path, name: str, artifact: Mapping[str, Any], region: str) -> Assembly:
    file = folder / artifact["properties"]["templateFile"]
    account, _, said = artifact["environment"].removeprefix("aws://").partition("/")
    return Assembly(
        stack=artifact["properties"].get("stackName", name),
        folder=folder,
        file=file,
        template=json.loads(file.read_text()),
        region=region if said == "unknown-region" else said,
        account="" if account == "unknown-account" else account,
    )
