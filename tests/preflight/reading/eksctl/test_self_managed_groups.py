"""Self-managed node groups of eksctl, as pools."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.cluster.images import has_driver
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from tests.preflight.reading.eksctl.config import given, self_managed

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize("family", ["AmazonLinux2023", "Bottlerocket"])
def test_a_self_managed_group(tmp_path: Path, family: str) -> None:
    found = self_managed(
        tmp_path,
        amiFamily=family,
        instanceType="g6.xlarge",
        minSize=0,
        maxSize=4,
        labels={"pool": "gpu"},
        taints=[GPU_TAINT],
        availabilityZones=["us-east-1a"],
    )

    assert (found.name, found.kind, found.instance_types) == ("gpu", "self-managed", ("g6.xlarge",))
    assert (found.min_nodes, found.max_nodes, found.zones) == (0, 4, ("us-east-1a",))
    assert [str(each) for each in found.taints] == ["nvidia.com/gpu=true:NoSchedule"]
    assert {"pool", "alpha.eksctl.io/nodegroup-name"} <= found.labels.keys()
    assert has_driver(found) is Answer.YES


def test_taints_as_a_mapping(tmp_path: Path) -> None:
    found = self_managed(tmp_path, taints={"a": "b:NoSchedule", "c": "NoExecute"})

    assert [str(each) for each in found.taints] == ["a=b:NoSchedule", "c:NoExecute"]


@pytest.mark.parametrize(
    ("family", "system", "driver"),
    [
        (None, "al2023", Answer.YES),
        ("AmazonLinux2", "al2", Answer.YES),
        ("Bottlerocket", "bottlerocket", Answer.YES),
        ("Ubuntu2404", "custom", Answer.NO),
        ("WindowsServer2022CoreContainer", "windows", Answer.UNKNOWN),
    ],
)
def test_the_image_of_a_family(tmp_path: Path, family: str | None, system: str, driver: Answer) -> None:
    found = self_managed(tmp_path, amiFamily=family, instanceType="g6.xlarge")

    assert (found.operating_system, has_driver(found)) == (system, driver)


def test_a_driver_that_a_script_may_install(tmp_path: Path) -> None:
    found = self_managed(
        tmp_path, amiFamily="Ubuntu2404", instanceType="g6.xlarge", preBootstrapCommands=["./install.sh"]
    )

    assert has_driver(found) is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [({}, 2, 2), ({"minSize": 0}, 0, 0), ({"desiredCapacity": 3}, 3, 3), ({"minSize": 0, "maxSize": 5}, 0, 5)],
)
def test_sizes_that_are_left_out(tmp_path: Path, said: dict[str, int], least: int, most: int) -> None:
    found = self_managed(tmp_path, instanceType="g6.xlarge", **said)

    assert (found.min_nodes, found.max_nodes) == (least, most)


def test_several_types(tmp_path: Path) -> None:
    mixed = {"instanceTypes": ["g6.xlarge", "g5.xlarge"], "onDemandPercentageAboveBaseCapacity": 0}
    found = self_managed(tmp_path, instancesDistribution=mixed)

    assert (found.instance_types, found.capacity_types) == (("g6.xlarge", "g5.xlarge"), ("spot",))


def test_types_that_eksctl_asks_ec2_for(tmp_path: Path) -> None:
    found = self_managed(tmp_path, instanceSelector={"gpus": 1})

    assert (found.instance_types, has_driver(found)) == ((), Answer.UNKNOWN)


def test_tags_for_cluster_autoscaler(tmp_path: Path) -> None:
    said = {"labels": {"pool": "gpu"}, "taints": [GPU_TAINT], "iam": {"withAddonPolicies": {"autoScaler": True}}}
    plain = self_managed(tmp_path, **said)
    told = self_managed(tmp_path, propagateASGTags=True, **said)

    prefix = "k8s.io/cluster-autoscaler/node-template"
    of_plain, of_told = ({each["Key"]: each["Value"] for each in pool.properties["Tags"]} for pool in (plain, told))
    assert of_plain == {
        "kubernetes.io/cluster/demo": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/demo": "owned",
    }
    assert (of_told[f"{prefix}/label/pool"], of_told[f"{prefix}/taint/nvidia.com/gpu"]) == ("gpu", "true")


@pytest.mark.parametrize(
    ("named", "zone"), [("a", "us-east-1a"), ("subnet-2", "us-east-1b"), ("subnet-3", "${zone of subnet-3}")]
)
def test_zones_of_subnets(tmp_path: Path, named: str, zone: str) -> None:
    private = {"a": {"id": "subnet-1", "az": "us-east-1a"}, "us-east-1b": {"id": "subnet-2"}}
    group = {"name": "gpu", "instanceType": "g6.xlarge", "subnets": [named]}

    report = check(given(tmp_path, nodeGroups=[group], vpc={"subnets": {"private": private}}))

    assert [str(each) for each in report.cases[0].cluster.pools[0].zones] == [zone]


def test_a_clean_group_has_no_certain_error(tmp_path: Path) -> None:
    gpu = {"name": "gpu", "instanceType": "g6.xlarge", "minSize": 0, "maxSize": 4, "desiredCapacity": 1}

    report = check(given(tmp_path, nodeGroups=[{"name": "system", "instanceType": "m6i.large"}, gpu]))

    assert [each.problem.message for each in report.findings if each.counts] == []
