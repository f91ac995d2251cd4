"""Fields of a NodeConfig, from nodeadm's own definition. License of the definition: MIT-0."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from gpu_facts.schemas import NODEADM
from tools.schemas.definitions import Missing, served
from tools.schemas.reduce import Reducer
from tools.schemas.source import Source

# A folder with the definition, because no module proxy has nodeadm.
FOLDER, _FILE = "GPU_CONSTRUCTS_SCHEMAS", "node.eks.aws_nodeconfigs.yaml"
_COMMIT, _AS_OF = "81fec2e", "2026-07-23"
_PATH = "nodeadm/internal/api/bridge/crds"
# These fields accept any JSON. The definition's generator declares them as objects.
_ANY = (("kubelet", "config"), ("containerd", "baseRuntimeSpec"))


def read() -> Source:
    """Read the fields of a NodeConfig.

    Raises:
        Missing: The folder isn't configured, or has no such file.
    """
    file = Path(os.environ.get(FOLDER, ""), _FILE)
    if FOLDER not in os.environ or not file.is_file():
        raise Missing(f"nodeadm {_COMMIT}: set {FOLDER} to a folder with {_FILE}, of its {_PATH}")
    kinds = {kind: Reducer().reduce(schema) for kind, schema in served(yaml.safe_load(file.read_text()))}
    for schema in kinds.values():
        for part, name in _ANY:
            schema["properties"]["spec"]["properties"][part]["properties"][name] = {"type": "object", "open": True}
    return Source(
        name=NODEADM,
        version=_COMMIT,
        url=f"https://github.com/awslabs/amazon-eks-ami/blob/main/{_PATH}/{_FILE}",
        as_of=_AS_OF,
        kinds=kinds,
    )
