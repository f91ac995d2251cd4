"""Under which names the GPUs of a node are advertised, and how many."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.cluster.bootstrap import Bootstrap
from gpu_rehearsal.cluster.devices import (
    DRA,
    EFA,
    PLUGIN,
    Advertised,
    Gpus,
    advertised,
    bottlerocket_plugin_config,
    find_manager_container,
    is_control_daemon,
    visible_gpus,
)
from gpu_rehearsal.cluster.instances import Image, Instance

AL2023 = Image("amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261012")
L4 = {"Manufacturer": "NVIDIA", "Name": "L4", "Count": 4, "LogicalGpuCount": 4, "MemoryInfo": {"SizeInMiB": 22888}}
SLICED = Gpus(count=8, partitions={"3g.20gb": 1, "1g.5gb+me": 4})


def instance(*scripts: str, **gpu: Any) -> Instance:
    bootstrap = Bootstrap(cluster="a", endpoint="b", certificate_authority="c", scripts=scripts)
    return Instance({"InstanceId": "i-1"}, {"GpuInfo": {"Gpus": [L4 | gpu]}}, bootstrap, 100, "role")


def sharing(kind: str, **settings: Any) -> dict[str, Any]:
    return {"sharing": {kind: settings | {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}


def test_the_driver_shows_the_gpus_of_the_type() -> None:
    assert visible_gpus(instance(), AL2023) == Gpus(count=4, name="L4", memory_mib=22888)


def test_a_part_of_a_gpu_is_shown_as_one() -> None:
    assert visible_gpus(instance(Count=0, LogicalGpuCount=1), AL2023).count == 1


@pytest.mark.parametrize(
    ("image", "count"),
    [
        ("", 4),
        ("amazon-eks-node-al2023-x86_64-standard-1.36-v1", 0),
        ("bottlerocket-aws-k8s-1.36-x86_64-v1", 0),
        ("own", 4),
    ],
)
def test_no_gpu_is_shown_without_a_driver(image: str, count: int) -> None:
    assert visible_gpus(instance(), Image(image)).count == count


def test_a_script_partitions_each_gpu() -> None:
    script = (
        "#!/bin/bash\nnvidia-smi -mig 1\nnvidia-smi mig -dci || true\nnvidia-smi mig -cgi 1g.5gb,1g.5gb,3g.20gb -C\n"
    )

    assert visible_gpus(instance(script), AL2023).partitions == {"1g.5gb": 2, "3g.20gb": 1}


@pytest.mark.parametrize("command", ["nvidia-smi mig -cgi 9,19 -C", "nvidia-smi mig -i 0 -cgi 1g.5gb -C"])
def test_refuses_a_partition_that_is_not_known(command: str) -> None:
    with pytest.raises(LookupError, match="this partitioning of its GPUs isn't supported"):
        visible_gpus(instance(command), AL2023)


@pytest.mark.parametrize(
    ("config", "gpus", "expected"),
    [
        ({}, Gpus(count=4), [("nvidia.com/gpu", 4, False)]),
        ({}, Gpus(count=0), []),
        ({}, SLICED, [("nvidia.com/gpu", 8, False)]),
        (
            {"flags": {"migStrategy": "mixed"}},
            SLICED,
            [("nvidia.com/mig-3g.20gb", 8, False), ("nvidia.com/mig-1g.5gb.me", 32, False)],
        ),
        (
            {"flags": {"migStrategy": "single"}},
            Gpus(count=8, partitions={"1g.10gb": 7}),
            [("nvidia.com/gpu", 56, False)],
        ),
        (sharing("timeSlicing"), Gpus(count=2), [("nvidia.com/gpu", 8, False)]),
        (
            sharing("timeSlicing", renameByDefault=True, failRequestsGreaterThanOne=True),
            Gpus(count=1),
            [("nvidia.com/gpu.shared", 4, True)],
        ),
        (sharing("mps", failRequestsGreaterThanOne=False), Gpus(count=1), [("nvidia.com/gpu", 4, True)]),
        (
            bottlerocket_plugin_config({"device-sharing-strategy": "time-slicing", "time-slicing": {"replicas": 3}}),
            Gpus(count=1),
            [("nvidia.com/gpu.shared", 3, True)],
        ),
        (bottlerocket_plugin_config({}), Gpus(count=1), [("nvidia.com/gpu", 1, False)]),
    ],
)
def test_the_plugin_advertises(config: dict[str, Any], gpus: Gpus, expected: list[tuple[str, int, bool]]) -> None:
    assert advertised(config, gpus) == [
        Advertised(name=name, count=count, single=single) for name, count, single in expected
    ]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"flags": {"migStrategy": "both"}}, "migStrategy must be one of"),
        ({"flags": {"migStrategy": "single"}}, "single takes one profile"),
    ],
)
def test_refuses_what_the_plugin_does_not_know(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(LookupError, match=reason):
        advertised(config, SLICED)


@pytest.mark.parametrize("settings", [{"device-partitioning-strategy": "mig"}, {"device-sharing-strategy": "halves"}])
def test_refuses_settings_that_are_not_known(settings: dict[str, Any]) -> None:
    with pytest.raises(LookupError, match=r"Bottlerocket: device-\w+-strategy"):
        bottlerocket_plugin_config(settings)


@pytest.mark.parametrize(
    ("image", "repository", "settings"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", PLUGIN, {}),
        ("nvcr.io/nvidia/k8s-device-plugin@sha256:0", PLUGIN, {"command": ["nvidia-device-plugin"]}),
        ("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.30", EFA, {}),
        ("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1", DRA, {"name": "gpus"}),
    ],
)
def test_a_manager_is_known_by_its_image(image: str, repository: str, settings: dict[str, Any]) -> None:
    container = {"name": "main", "image": image} | settings

    assert find_manager_container({"spec": {"containers": [container]}}, repository) == container


def test_other_programs_of_the_image_manage_nothing() -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    pod = {"spec": {"containers": [{"name": "main", "image": image, "command": ["mps-control-daemon"]}]}}

    assert find_manager_container(pod, PLUGIN) is None
    assert is_control_daemon(pod)
