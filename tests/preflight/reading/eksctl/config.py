"""A ClusterConfig, and the cluster read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.inputs import Input, read_input

METADATA = {"name": "demo", "region": "us-east-1", "version": "1.36"}


def given(folder: Path, *objects: Any, **parts: Any) -> Input:
    """The cluster read from a config with some parts, and from objects next to it."""
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": METADATA, **parts}
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([config, *objects]))
    return read_input([str(folder / "cluster.yaml")])


def cluster(folder: Path, *objects: Any, **parts: Any) -> Cluster:
    """The cluster of such a config."""
    [found] = clusters(given(folder, *objects, **parts))
    return found


def managed(folder: Path, **said: Any) -> Pool:
    """The pool of a managed group."""
    [pool] = cluster(folder, managedNodeGroups=[{"name": "gpu", **said}]).pools
    return pool


def self_managed(folder: Path, **said: Any) -> Pool:
    """The pool of a self-managed group."""
    [pool] = cluster(folder, nodeGroups=[{"name": "gpu", **said}]).pools
    return pool
