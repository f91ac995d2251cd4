"""A small template, and the clusters read from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_preflight.reading.inputs import Input, read_input

# The image of its nodes has no driver, which GPU001 says.
BAD: dict[str, Any] = {
    "ClusterName": {"Ref": "Cluster"},
    "InstanceTypes": ["g6.xlarge"],
    "AmiType": "AL2023_x86_64_STANDARD",
    "ScalingConfig": {"MinSize": 0, "MaxSize": 2},
}
CLUSTER = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}


def template(group: Any = None, **parts: Any) -> dict[str, Any]:
    """A cluster with one managed group."""
    nodes = {"Type": "AWS::EKS::Nodegroup", "Properties": BAD if group is None else group, **parts}
    return {"Resources": {"Cluster": CLUSTER, "Nodes": nodes}}


def given(folder: Path, content: Any, name: str = "stack.template.json") -> Input:
    """The input read from a folder with one more file."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return read_input([str(folder)])
