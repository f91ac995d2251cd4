"""Out of several instance types, the report names the nearest one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.explain import explain
from gpu_preflight.reading.inputs import read_input

TYPES = ["g6e.xlarge", "g6e.2xlarge"]


def reasons(folder: Path, types: list[str], **limits: Any) -> list[str]:
    """The reasons of a NodePool with some types against a pod."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}
    template = {"spec": {"requirements": [requirement], "nodeClassRef": {"kind": "EC2NodeClass", "name": "gpus"}}}
    pod = {"containers": [{"name": "main", "image": "example.com/a:1", "resources": {"limits": limits}}]}
    node_class = {"amiSelectorTerms": [{"alias": "al2023@v20260714"}], "role": "nodes"}
    objects = [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "gpus"},
            "spec": {"template": template},
        },
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "gpus"},
            "spec": node_class,
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer"}, "spec": pod},
    ]
    (folder / "objects.yaml").write_text("\n---\n".join(map(json.dumps, objects)))
    found = clusters(read_input([str(folder)]))
    [verdict] = explain(Case(found[0]), workloads=found[0].workloads).verdicts
    return [reason.text for pool in verdict.pools for reason in pool.reasons]


@pytest.mark.parametrize("types", [TYPES, TYPES[::-1]])
def test_the_largest_type_is_named_when_none_is_large_enough(tmp_path: Path, types: list[str]) -> None:
    told = reasons(tmp_path, types, memory="70Gi")

    [about_memory] = [each for each in told if "memory" in each]
    assert about_memory.startswith("requests 70Gi memory, but g6e.2xlarge has 6")


def test_another_fault_weighs_more_than_a_larger_node(tmp_path: Path) -> None:
    told = reasons(tmp_path, ["g6e.xlarge", "r6i.24xlarge"], **{"memory": "40Gi", "nvidia.com/gpu": "1"})

    assert any("g6e.xlarge" in each for each in told)
