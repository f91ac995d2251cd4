"""Parts of user data are what a node reads, and say nothing that the shape of the node says."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import NodeShape
from gpu_constructs.pools import BottlerocketSettings, Host, NodeConfig, ShellScript

SCRIPT = ShellScript(text="#!/bin/bash\ntrue\n")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("echo", ValueError, "text must begin with '#!', got 'echo'; write '#!/bin/bash' first"),
        ("", ValueError, r"text must begin with"),
        ("#!/bin/bash\necho ü", ValueError, "text must be ASCII, got 'ü'"),
        (
            f"#!/bin/bash\nexport T=hf_{'a' * 34}",
            ValueError,
            "text must contain no secret in the template, got a token of Hugging Face",
        ),
        (b"#!/bin/bash", TypeError, r"text must be a string"),
    ],
)
def test_refuses_a_script(text: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"shell script: {message}"):
        ShellScript(text=text)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ([], TypeError, r"spec must be a mapping of fields to values, at least one, got \[\]"),
        ({}, TypeError, r"spec must be a mapping of fields to values, at least one, got \{\}"),
        ({"kubelt": {}}, ValueError, r"got 'kubelt', which it ignores; did you mean 'kubelet'\?"),
        (
            {"kubelet": {"flag": []}},
            ValueError,
            r"got 'kubelet.flag', which it ignores; did you mean 'kubelet.flags'|fl",
        ),
        ({"kubelet": 1}, TypeError, r"spec.kubelet must be a mapping, got 1"),
        ({1: {}}, TypeError, "spec must have strings as keys, got 1"),
        ({"kubelet": {"config": {"x": object()}}}, TypeError, "spec must contain only mappings, lists, strings"),
        ({"featureGates": {"FastImagPull": True}}, ValueError, r"did you mean 'FastImagePull'"),
        (
            {"cluster": {"name": "x"}},
            ValueError,
            r"must leave out cluster, got \{'name': 'x'\}; set the cluster of the pool",
        ),
        ({"kubelet": {"config": {"maxPods": 9}}}, ValueError, r"leave out kubelet.config.maxPods, got 9; .*Kubelet\("),
        ({"instance": {"localStorage": {"strategy": "RAID0"}}}, ValueError, r"got 'RAID0'; set NodeShape\(raid0=...\)"),
        (
            {"kubelet": {"flags": ["--node-labels=a=b"]}},
            ValueError,
            r"leave out --node-labels, got '--node-labels=a=b'",
        ),
        ({"kubelet": {"flags": "--v=2"}}, TypeError, r"spec.kubelet.flags must be a list of flags, got '--v=2'"),
    ],
)
def test_refuses_a_node_config(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"node config: .*{message}"):
        NodeConfig(spec=spec)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, TypeError, r"settings must be a mapping of fields to values"),
        ({"kubernetes": {"max-pods": 9}}, ValueError, r"must leave out kubernetes.max-pods, got 9; .*Kubelet\("),
        ({"kubernetes": {"node-labels": {"a": "b"}}}, ValueError, r"; set NodeShape\(labels=...\)"),
        ({"a b": {"c": 1}}, ValueError, "in the names of tables, got 'a b'; rename it, because EKS can't merge it"),
        ({"motd": 'a "b"'}, ValueError, "must have no quotes in strings"),
        ({"ntp": {"time-servers": ["a", 1]}}, ValueError, r"must have lists of one type, got \['a', 1\]"),
        ({"motd": None}, ValueError, r"must have a value for motd, got None"),
    ],
)
def test_refuses_settings(settings: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"bottlerocket settings: .*{message}"):
        BottlerocketSettings(settings=settings)


def test_accepts_the_neighbors_of_refused_values() -> None:
    config = NodeConfig(
        spec={
            "kubelet": {"config": {"shutdownGracePeriod": "60s"}, "flags": ["--v=2"]},
            "instance": {"localStorage": {"disabledMounts": ["PodLogs"]}},
            "featureGates": {"InstanceIdNodeName": True},
        }
    )
    settings = BottlerocketSettings(
        settings={"kubernetes": {"eviction-hard": {"memory.available": "5%"}}, "ntp": {"time-servers": ["a", "b"]}}
    )

    assert config.spec["kubelet"]["flags"] == ["--v=2"]
    assert settings.settings["ntp"]["time-servers"] == ["a", "b"]


@pytest.mark.parametrize("part", [SCRIPT, NodeConfig(spec={"kubelet": {"flags": ["--v=2"]}})])
def test_bottlerocket_runs_no_script(part: Any) -> None:
    with pytest.raises(
        ValueError, match=r"host must have user_data for bottlerocket, got a .*...\}\), because it can't run scripts"
    ):
        NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", host=Host(user_data=(part,)))


def test_al2023_reads_no_settings_of_bottlerocket() -> None:
    part = BottlerocketSettings(settings={"motd": "hello"})

    with pytest.raises(
        ValueError, match="must have user_data for al2023, got a BottlerocketSettings; use ShellScript or"
    ):
        NodeShape(instance_types=("g6.xlarge",), host=Host(user_data=(part,)))


@pytest.mark.parametrize("given", [SCRIPT, ("#!/bin/bash",), {"user": "data"}])
def test_parts_are_a_list_of_parts(given: Any) -> None:
    with pytest.raises(TypeError, match=r"host: user_data must be a list of ShellScript\(text=.*, got"):
        Host(user_data=given)


def test_a_shape_with_parts_has_a_hash() -> None:
    shape = NodeShape(
        instance_types=("g6.xlarge",), host=Host(user_data=[SCRIPT, NodeConfig(spec={"kubelet": {"flags": ["--v=2"]}})])
    )

    assert hash(shape) == hash(shape)
