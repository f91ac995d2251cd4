"""Drawn worlds as the files that preflight reads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.inputs import read_input
from tests.preflight.strategies.vocabulary import NAMESPACE, Json

# Stands for a value that deployment tells.
LATER = "@later@"


def written(world: Json, folder: Path) -> Path:
    """Write a template whose manifest has tokens where it says later, as CDK writes it."""
    text = json.dumps(world["objects"]).replace(f'"{LATER}number"', LATER)
    parts: list[Any] = [part for each in text.split(LATER) for part in (each, {"Ref": "Later"})][:-1]
    manifest = {"Manifest": {"Fn::Join": ["", parts]}, "ClusterName": {"Ref": "Cluster"}}
    resources = {
        **world["resources"],
        "Manifest": {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": manifest},
    }
    file = folder / "stack.template.json"
    file.write_text(json.dumps({"Parameters": {"Later": {"Type": "String"}}, "Resources": resources}))
    return file


def read(world: Json, pods: Iterable[Json] = ()) -> Cluster:
    """Return the cluster of a world and of some pods in it, as preflight reads it from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = written({**world, "objects": [*_with_namespace(world["objects"]), *pods]}, Path(folder))
        [found] = clusters(read_input([str(file)]))
    return found


def _with_namespace(objects: list[Json]) -> list[Json]:
    """Return objects with the namespace of the drawn ones, which who tries them makes where none is drawn."""
    if any(each["kind"] == "Namespace" for each in objects):
        return objects
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *objects]
