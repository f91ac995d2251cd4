"""Short ways to the values that preflight works with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_preflight.cluster.clusters import clusters, workloads
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.user_data import read_user_data

ORIGIN = Origin("file", "path")


def pool(**changes: Any) -> Pool:
    """A managed group of AL2023 nodes."""
    given: dict[str, Any] = {"name": "nodes", "kind": "managed", "operating_system": "al2023", "origin": ORIGIN}
    return Pool(**{**given, **changes})


def pool_told(text: str, **changes: Any) -> Pool:
    """A pool with user data."""
    return pool(user_data=read_user_data(text, encoded=False), **changes)


def manifest(kind: str, spec: Any, **metadata: Any) -> Object:
    """A Kubernetes object."""
    content = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "thing", **metadata}, "spec": spec}
    return Object(content, Origin("file", f"{kind} thing"))


def workload(kind: str, spec: Any) -> Workload:
    """The one workload of an object."""
    [found] = workloads([manifest(kind, spec)])
    return found


def clusters_of(folder: Path, content: Any, name: str = "stack.template.json") -> tuple[Cluster, ...]:
    """The clusters of one file."""
    (folder / name).write_text(json.dumps(content))
    return clusters(read_input([str(folder / name)]))


def cluster_of(folder: Path, content: Any, name: str = "stack.template.json") -> Cluster:
    """The one cluster of one file."""
    [found] = clusters_of(folder, content, name)
    return found
