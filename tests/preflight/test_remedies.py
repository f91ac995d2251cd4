"""A suggested fix works: the test applies each change to the input and checks again, and the workload runs."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.preflight.command_line.test_cli import Done
from tests.preflight.reading.programs import needs
from tests.preflight.rule_cases import FIXTURES

EXPECTED_DISK = "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage=16486Mi"
LESS, FEWER = ", if the pod can do with less", ", if fewer pods are enough"
PRICE = "USD an hour on demand, list price of us-east-1"
CASES = {
    "GPU120/fails_no_toleration_of_the_only_group": ["tolerate team=ml:NoSchedule"],
    "GPU120/fails_more_memory_than_the_node": [
        rf"set InstanceTypes of .* to g6.2xlarge \(1 L4 of 22.4 GiB, 0.98 {PRICE}\)",
        f"request 13.8Gi memory{LESS}",
    ],
    "GPU120/fails_more_gpus_than_a_node_of_karpenter": [f"request 8 nvidia.com/gpu{LESS}"],
    "GPU120/fails_selector_of_a_label_that_no_pool_gives": [
        rf"set InstanceTypes of .* to p5.4xlarge \(1 H100 of 80.0 GiB, 6.88 {PRICE}; GPUs change from L4 of 22.4 GiB "
        r"to H100 of 80.0 GiB\), and label the nodes of .*GpuNodes with gpu-type=h100",
        "select no gpu-type",
    ],
    "GPU120/fails_disk_that_the_autoscaler_does_not_expect": [
        f"tag .*GpuNodes with {EXPECTED_DISK}",
        f"request no ephemeral-storage{LESS}",
    ],
    "GPU130/fails_more_cpu_than_the_quota": ["raise requests.cpu to 2 in ResourceQuota ml", f"request 1 cpu{LESS}"],
    "GPU130/fails_three_replicas_and_a_quota_of_two": [
        "raise requests.nvidia.com/gpu to 3, requests.memory to 12Gi in ResourceQuota ml",
        f"run 2 pods{FEWER}",
    ],
    "GPU121/fails_six_replicas_on_four_nodes": ["raise MaxSize of .* to 6", f"run 4 pods{FEWER}"],
    "GPU121/fails_three_replicas_on_a_node_of_no_autoscaler": [f"run 1 pod{FEWER}"],
    "GPU121/fails_three_replicas_and_a_limit_of_two_gpus": [
        "raise limit nvidia.com/gpu to 3 of NodePool gpu, if .*",
        f"run 2 pods{FEWER} and .*",
    ],
}


def explained(*paths: str) -> dict[str, Any]:
    [cluster] = Done("explain", *paths, "--format", "json").json["clusters"]
    [workload] = cluster["workloads"]
    found: dict[str, Any] = workload
    return found


class Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation's functions."""


Loader.add_constructor("!Ref", lambda _, node: {"Ref": node.value})


def patched(document: Any, patch: Any) -> Any:
    """An object as kubectl patches it."""
    command = [needs("kubectl"), "patch", "--local", "--filename=-", "--type=strategic", f"--patch={json.dumps(patch)}"]
    done = subprocess.run([*command, "--output=json"], input=json.dumps(document), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pool_at(path: str, document: Any) -> Any:
    """The resource, NodePool, quota or autoscaler of a document that a path names, ``None`` where there is none."""
    if document.get("kind") == "ResourceQuota":
        return document if path.endswith(f"/{document['metadata']['name']}") else None
    if document.get("kind") in ("HorizontalPodAutoscaler", "ScaledObject"):
        place = f"{document['metadata']['namespace']}/{document['metadata']['name']}"
        return document if path == f"{document['kind']} {place}" else None
    if document.get("kind") == "NodePool":
        return document if path == f"NodePool {document['metadata']['name']}" else None
    return document.get("Resources", {}).get(path.rpartition("/")[2], {}).get("Properties")


def applied(fixture: Path, workload: dict[str, Any], remedy: dict[str, Any]) -> list[Any]:
    """The documents of a fixture with a remedy applied as its user would."""
    documents = copy.deepcopy(list(yaml.load_all(fixture.read_text(), Loader)))
    kind, place = workload["name"].split(" ")
    for place_, document in enumerate(documents):
        if remedy["patch"] and document.get("kind") == kind and place.endswith(f"/{document['metadata']['name']}"):
            documents[place_] = patched(document, remedy["patch"])
    for each in remedy["changes"]:
        *path, last = each["property"].split(".")
        for properties in filter(None, (pool_at(each["path"], document) for document in documents)):
            for name in path:
                properties = properties[name]
            properties[last] = each["value"]
    return documents


@pytest.mark.parametrize("case", CASES)
def test_what_would_do_does(case: str, tmp_path: Path) -> None:
    fixture = FIXTURES / f"{case}.yaml"
    workload = explained(str(fixture))
    assert workload["answer"] == "no"
    assert workload["wouldDo"]

    for number, remedy in enumerate(workload["wouldDo"]):
        file = tmp_path / f"{number}.yaml"
        file.write_text("\n---\n".join(map(json.dumps, applied(fixture, workload, remedy))))

        after = explained(str(file))
        assert after["answer"] == "yes" or after["runsIf"], remedy
        assert all(each in remedy["text"] for each in after["runsIf"])


@pytest.mark.parametrize("case", CASES)
def test_it_is_said_in_words(case: str) -> None:
    workload = explained(str(FIXTURES / f"{case}.yaml"))

    for text, expected in zip([each["text"] for each in workload["wouldDo"]], CASES[case], strict=True):
        assert re.fullmatch(expected, text), text


def smallest(folder: Path, limits: str, selector: str = "{}") -> str | None:
    """The smallest type that the report suggests for a pod."""
    text = (FIXTURES / "GPU120" / "fails_more_gpus_than_a_node_of_karpenter.yaml").read_text()
    for old, new in (("{nvidia.com/gpu: 16}", limits), ("containers:", f"nodeSelector: {selector}\n      containers:")):
        head, found, rest = text.rpartition(old)
        assert found
        text = head + new + rest
    (folder / "stack.yaml").write_text(text)
    found_type = explained(str(folder / "stack.yaml"))["smallestType"]
    return found_type and str(found_type["name"])


@pytest.mark.parametrize(
    ("limits", "selector", "expected"),
    [
        ("{nvidia.com/gpu: 1, cpu: 500}", "{}", None),
        ("{nvidia.com/gpu: 8, memory: 1200Gi, vpc.amazonaws.com/efa: 32}", "{}", "p5.48xlarge"),
        ("{nvidia.com/mig-1g.5gb: 9}", "{}", None),
        ("{nvidia.com/gpu.shared: 90}", "{}", None),
    ],
)
def test_the_smallest_type(tmp_path: Path, limits: str, selector: str, expected: str | None) -> None:
    assert smallest(tmp_path, limits, selector) == expected


def test_a_node_pool_may_launch_a_larger_type_of_another_gpu(tmp_path: Path) -> None:
    text = (FIXTURES / "GPU120" / "fails_more_gpus_than_a_node_of_karpenter.yaml").read_text()
    half = "resources: {limits: {nvidia.com/gpu: 4, memory: 500Gi}}"
    both = f"{half}\n      - name: other\n        image: example.com/train:1\n        {half}"
    assert "resources: {limits: {nvidia.com/gpu: 16}}" in text
    (tmp_path / "stack.yaml").write_text(text.replace("resources: {limits: {nvidia.com/gpu: 16}}", both))

    workload = explained(str(tmp_path / "stack.yaml"))

    [only] = workload["wouldDo"]
    launch = r"allow NodePool .* to launch p4d.24xlarge \(8 A100 of 40.0 GiB, .*; GPUs change from "
    assert re.match(launch, only["text"])


def test_no_type_would_do_for_what_a_quota_refuses() -> None:
    workload = explained(str(FIXTURES / "GPU130" / "fails_four_replicas_of_two_and_a_quota_of_four.yaml"))

    assert (workload["answer"], workload["smallestType"]) == ("no", None)


def test_no_type_would_do_for_a_disk_that_eks_gives_none_of_them(tmp_path: Path) -> None:
    assert smallest(tmp_path, "{nvidia.com/gpu: 16, ephemeral-storage: 500Gi}") is None


def test_nothing_would_do_for_what_runs() -> None:
    workload = explained(str(FIXTURES / "GPU121" / "passes_six_replicas_on_two_groups_of_four.yaml"))

    assert (workload["answer"], workload["wouldDo"], workload["smallestType"]) == ("yes", [], None)


def told(*paths: str) -> str:
    return " ".join(Done("explain", *paths).out.split())


def test_what_is_there_of_a_job_is_not_patched() -> None:
    text = told(str(FIXTURES / "GPU120" / "fails_more_gpus_than_a_node_of_karpenter.yaml"))

    assert "change it in the file, then run: kubectl delete and kubectl apply" in text
    assert "kubectl patch" not in text


_FOUND_BY_TAGS = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/lab"


def test_a_group_of_eksctl_is_changed_in_its_own_words(tmp_path: Path) -> None:
    group = {"name": "gpus", "instanceType": "g5.xlarge", "minSize": 1, "desiredCapacity": 1, "maxSize": 1}
    meta = {"name": "lab", "region": "eu-west-1", "version": "1.35"}
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": meta}
    resources = {"limits": {"nvidia.com/gpu": 1}}
    spec = {"containers": [{"name": "main", "image": "example.com/a:1", "resources": resources}]}
    pods = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": spec}
    (tmp_path / "cluster.yaml").write_text(json.dumps({**config, "managedNodeGroups": [group]}))
    (tmp_path / "app.yaml").write_text(json.dumps({**owner, "spec": {**pods, "template": template}}))

    command = ["./cluster-autoscaler", "--cloud-provider=aws", _FOUND_BY_TAGS]
    container = {"name": "a", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", "command": command}
    makes = {**owner, "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"}}
    (tmp_path / "autoscaler.yaml").write_text(
        json.dumps(
            {**makes, "spec": {"template": {"spec": {"serviceAccountName": "scaler", "containers": [container]}}}}
        )
    )

    [change] = explained(str(tmp_path))["wouldDo"][0]["changes"]

    assert (change["property"], change["value"]) == ("managedNodeGroups.maxSize", 2)


@pytest.mark.parametrize(("zone", "expected"), [("us-east-1a", "g6.2xlarge"), ("ap-east-1a", "g5.2xlarge")])
def test_no_type_is_suggested_that_the_region_was_not_seen_to_offer(tmp_path: Path, zone: str, expected: str) -> None:
    documents = list(yaml.load_all((FIXTURES / "GPU120" / "fails_more_memory_than_the_node.yaml").read_text(), Loader))
    subnet = {"VpcId": "vpc-0123456789abcdef0", "CidrBlock": "10.0.0.0/24", "AvailabilityZone": zone}
    resources = documents[0]["Resources"]
    resources["Subnet"] = {"Type": "AWS::EC2::Subnet", "Properties": subnet}
    group = resources["GpuNodes"]
    group["Properties"]["Subnets"] = [{"Ref": "Subnet"}]
    (tmp_path / "stack.yaml").write_text("\n---\n".join(map(json.dumps, documents)))

    texts = [each["text"] for each in explained(str(tmp_path / "stack.yaml"))["wouldDo"]]

    assert any(f"to {expected} (" in text for text in texts), texts


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({"instanceType": "g5.xlarge"}, ("managedNodeGroups.instanceType", "g5.12xlarge")),
        ({"instanceTypes": ["g5.xlarge"]}, ("managedNodeGroups.instanceTypes", ["g5.12xlarge"])),
        ({"instanceTypes": ["g5.xlarge"], "instanceSelector": {"gpus": 1}}, None),
    ],
)
def test_another_type_of_a_group_of_eksctl_is_set_where_its_types_are_written(
    tmp_path: Path, types: dict[str, Any], expected: Any
) -> None:
    group = {"name": "gpus", "minSize": 1, "desiredCapacity": 1, "maxSize": 1, **types}
    meta = {"name": "lab", "region": "us-east-1", "version": "1.36"}
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": meta}
    resources = {"limits": {"nvidia.com/gpu": 4}}
    spec = {"containers": [{"name": "main", "image": "example.com/a:1", "resources": resources}]}
    (tmp_path / "cluster.yaml").write_text(json.dumps({**config, "managedNodeGroups": [group]}))
    (tmp_path / "app.yaml").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    )

    changes = [each for would in explained(str(tmp_path))["wouldDo"] for each in would["changes"]]

    found = [(each["property"], each["value"]) for each in changes if each["property"].startswith("managed")]
    assert found == ([expected] if expected else [])
