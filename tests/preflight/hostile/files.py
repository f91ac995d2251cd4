"""Input files, and preflight's result for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import Input, read_input
from tests.preflight.hostile.broken import judged

NODES = {"ClusterName": "demo", "InstanceTypes": ["g6.xlarge"]}
GROUP: dict[str, Any] = {"Type": "AWS::EKS::Nodegroup", "Properties": NODES}


def file_of(folder: Path, content: Any, name: str = "stack.template.json") -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def template(**parts: Any) -> dict[str, Any]:
    return {"Resources": {"Nodes": GROUP}, **parts}


def valued(folder: Path, value: Any, **parts: Any) -> Any:
    """Return what the value of a label of a node group resolves to."""
    properties = {**GROUP["Properties"], "Labels": {"value": value}}
    resources = {"Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}
    given = read_input([file_of(folder, {"Resources": resources, **parts})])
    return given.resources["stack/Nodes"].properties["Labels"]["value"]


def everything(path: str) -> Input | None:
    return judged(Path(path))


def refusal(path: str) -> str:
    with pytest.raises(UnusableInput) as refused:
        read_input([path])
    return str(refused.value)
