"""Instances become nodes of a real control plane, and pods on them start, run and end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.cluster.addons import Addons
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.container import Programs, Starter
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane
from gpu_rehearsal.cluster.devices import Devices
from gpu_rehearsal.cluster.nodes import Kubelet, Nodes
from gpu_rehearsal.cluster.pod_status import is_ready, owner
from gpu_rehearsal.processes import wait_until
from tests.rehearsal.cluster.cloud import CLUSTER, PlayedCloud, node_config, played_cloud
from tools import build_e2e_tools

PACE = 0.01
TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
KARPENTER = "public.ecr.aws/karpenter/controller"


@dataclass
class Stage:
    """A cluster with its machines."""

    cloud: PlayedCloud
    plane: ControlPlane
    nodes: Nodes
    kubelet: Kubelet
    devices: Devices
    addons: Addons

    @property
    def client(self) -> Client:
        """An administrator."""
        return self.plane.client

    def run(self, **kubelet: Any) -> str:
        """Run an instance that is configured to join."""
        return self.cloud.run(node_config(**kubelet))

    def node(self, instance: str) -> Object:
        """Return the node of an instance when it is ready."""
        wait_until(lambda: any(is_ready(each) for each in self._nodes(instance)), f"the node of {instance}")
        return self._nodes(instance)[0]

    def _nodes(self, instance: str) -> list[Object]:
        return [each for each in self.client.list("/api/v1/nodes") if instance in each["spec"]["providerID"]]

    def pod(self, name: str) -> Object:
        """Return a pod."""
        return self.client.get(f"/api/v1/namespaces/default/pods/{name}")

    def wait_for_phase(self, name: str, phase: str) -> Object:
        """Return a pod when it is in a phase."""
        wait_until(lambda: self.pod(name)["status"].get("phase") == phase, f"{name} to be {phase}")
        return self.pod(name)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    logs = tmp_path_factory.mktemp("programs")
    program = logs / "karpenter"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    programs = Programs({(KARPENTER, "1.14.1"): program})
    with played_cloud() as cloud, control_plane(folder, audit=True) as plane:
        starter = Starter(programs, plane.client, cloud, cluster=CLUSTER, folder=logs, pace=PACE)
        nodes = Nodes(cloud, plane.client, cluster=CLUSTER, pace=PACE)
        devices = Devices(plane.client, nodes.joined, nodes.instances, pace=PACE)
        kubelet = Kubelet(
            plane.client, nodes.joined, starter=starter, rejection_reason=devices.rejection_reason, pace=PACE
        )
        with nodes, kubelet, devices, Addons(cloud, plane.client, cluster=CLUSTER) as addons:
            wait_until(lambda: has_account(plane.client), "the default account")
            yield Stage(cloud, plane, nodes, kubelet, devices, addons)


def has_account(client: Client) -> bool:
    return client.find("/api/v1/namespaces/default/serviceaccounts/default") is not None


# Answers the probe, prints its input, and ends at once the first time.
PROGRAM = f"""#!{sys.executable}
import http.server, json, os, pathlib, sys
first = pathlib.Path("first")
print(json.dumps([sys.argv[1:], dict(os.environ)]), flush=True)
if not first.exists():
    first.touch()
    sys.exit(3)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(os.environ["HEALTH_PROBE_PORT"])), Answer).serve_forever()
"""


def pod(name: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "example.com/any:1"}
    tolerations = [{"operator": "Exists"}]
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": [container], "tolerations": tolerations, "terminationGracePeriodSeconds": 1} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_an_instance_becomes_a_node_of_its_user_data(stage: Stage) -> None:
    instance = stage.run(
        flags=["--node-labels=team=vision,pool=gpu"], config={"maxPods": 29, "registerWithTaints": [TAINT]}
    )

    node = stage.node(instance)

    labels, has = node["metadata"]["labels"], node["status"]["allocatable"]
    assert node["metadata"]["name"].endswith(".ec2.internal")
    assert labels.items() >= {"team": "vision", "pool": "gpu", "kubernetes.io/arch": "amd64"}.items()
    assert labels["node.kubernetes.io/instance-type"] == "g6.xlarge"
    assert labels["topology.kubernetes.io/zone"] == "us-east-1a"
    assert (has["cpu"], has["pods"]) == ("3920m", "29")
    wait_until(lambda: stage.node(instance)["spec"].get("taints") == [TAINT], "no other taint")


def test_a_node_goes_with_its_instance(stage: Stage) -> None:
    instance = stage.run()
    name = stage.node(instance)["metadata"]["name"]

    stage.cloud.terminate(instance)

    wait_until(lambda: stage.client.find(f"/api/v1/nodes/{name}") is None, "the node to go")


def test_an_instance_without_user_data_never_joins(stage: Stage) -> None:
    instance = stage.cloud.run("")

    wait_until(lambda: instance in stage.nodes.never, "the reason")
    assert stage.nodes.never[instance] == "it has no user data"


def test_an_instance_that_reaches_nothing_joins_once_it_does(stage: Stage) -> None:
    stage.cloud.unreached = "no route"
    first = stage.cloud.run(node_config())
    wait_until(lambda: first in stage.nodes.never, "the reason")
    assert stage.nodes.outcome(first) == "no route"

    second = stage.cloud.run(node_config())
    assert stage.nodes.outcome(second) is None
    stage.cloud.unreached = ""

    wait_until(lambda: stage.nodes.outcome(second) == "", "the node")
    for each in (first, second):
        stage.cloud.terminate(each)


def test_the_server_refuses_labels_that_no_kubelet_may_set(stage: Stage) -> None:
    instance = stage.run(flags=["--node-labels=node-role.kubernetes.io/gpu=true"])

    wait_until(lambda: instance in stage.nodes.never, "the reason")
    assert "not allowed to set the following labels: node-role.kubernetes.io/gpu" in stage.nodes.never[instance]


def test_a_job_runs_to_its_end(stage: Stage) -> None:
    stage.node(stage.run())
    template = {"spec": pod("any", restartPolicy="Never")["spec"]}
    stage.client.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"template": template},
        }
    )

    path = "/apis/batch/v1/namespaces/default/jobs/train"
    wait_until(lambda: stage.client.get(path)["status"].get("succeeded") == 1, "the job")


def test_a_pod_waits_for_what_it_refers_to(stage: Stage) -> None:
    stage.node(stage.run())
    stage.client.create(pod("waits", volumes=[{"name": "settings", "configMap": {"name": "late"}}]))

    wait_until(lambda: stage.kubelet.waits.get("default/waits") == 'configmap "late" not found', "the reason")
    metadata = {"name": "late", "namespace": "default"}
    stage.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert is_ready(stage.wait_for_phase("waits", "Running"))


def test_a_pod_that_is_deleted_ends(stage: Stage) -> None:
    stage.node(stage.run())
    stage.client.create(pod("deleted"))
    stage.wait_for_phase("deleted", "Running")

    # Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
    metadata = {"name": "deleted", "namespace": "default"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    stage.client.post("/api/v1/namespaces/default/pods/deleted/eviction", eviction)

    wait_until(lambda: stage.client.find("/api/v1/namespaces/default/pods/deleted") is None, "the pod to go")


def test_a_known_image_runs_as_its_program(stage: Stage) -> None:
    stage.node(stage.run())
    made = datetime(2026, 1, 1, tzinfo=timezone.utc)
    role = "arn:aws:iam::123456789012:role/karpenter"
    of = {"namespace": "default", "serviceAccount": "default", "associationId": "a-1", "roleArn": role}
    stage.cloud.eks.associations.append(of | {"createdAt": made})
    # The DaemonSet whose pod on the node serves the credentials.
    stage.cloud.eks.addons["eks-pod-identity-agent"] = "{}"
    env = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    container = {
        "name": "controller",
        "image": f"{KARPENTER}:1.14.1@sha256:{'0' * 64}",
        "args": ["--node=$(NODE)"],
        "env": env,
        "resources": {"limits": {"memory": "1Gi"}},
    }
    stage.client.create(pod("karpenter", containers=[container]))

    wait_until(lambda: is_ready(stage.pod("karpenter")), "it to be ready")

    found = stage.pod("karpenter")
    [status] = found["status"]["containerStatuses"]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 3)
    log = stage.kubelet.logs["default/karpenter/controller"]
    assert f"--node={found['spec']['nodeName']}" in log.read_text()
    assert '"LIMIT": "1024"' in log.read_text()
    assert '"AWS_ACCESS_KEY_ID": "AKIAkarpenter"' in log.read_text()
    assert Path(log.parent, "kubeconfig").exists()


def device_plugin(name: str, pool: str, *, daemon: str = "", **sharing: Any) -> list[Object]:
    """NVIDIA's device plugin on the nodes of a pool, with the pool's sharing settings."""
    metadata = {"name": name, "namespace": "default"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    container: Object = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    if daemon:
        container["command"] = [daemon]
    container["env"] = [{"name": "CONFIG_FILE", "value": "/config/config.yaml"}]
    container["volumeMounts"] = [{"name": "config", "mountPath": "/config"}]
    volumes = [{"name": "config", "configMap": {"name": name}}]
    labels = {"app": name}
    spec = pod(name, containers=[container], volumes=volumes, nodeSelector={"pool": pool})["spec"]
    of_set = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    return [
        settings | {"data": {"config.yaml": json.dumps({"version": "v1", "sharing": sharing})}},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": of_set},
    ]


def asking(name: str, resource: str, number: int) -> Object:
    container = {"name": "main", "image": "example.com/any:1", "resources": {"limits": {resource: str(number)}}}
    return pod(name, containers=[container], restartPolicy="Never")


def test_a_gpu_is_there_when_its_plugin_runs(stage: Stage) -> None:
    node = stage.node(stage.run(flags=["--node-labels=pool=plain"]))
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    stage.client.create(asking("trains", "nvidia.com/gpu", 1))

    for each in device_plugin("plain", "plain"):
        stage.client.apply(each)

    assert stage.wait_for_phase("trains", "Succeeded")["spec"]["nodeName"] == node["metadata"]["name"]


def test_a_shared_gpu_takes_requests_for_one(stage: Stage) -> None:
    stage.node(stage.run(flags=["--node-labels=pool=sliced"]))
    one = [{"name": "nvidia.com/gpu", "replicas": 4}]
    sharing = {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": one}
    for each in device_plugin("sliced", "sliced", timeSlicing=sharing):
        stage.client.apply(each)

    for name, number in (("one", 1), ("two", 2)):
        stage.client.create(asking(name, "nvidia.com/gpu.shared", number))

    stage.wait_for_phase("one", "Succeeded")
    refused = stage.wait_for_phase("two", "Failed")["status"]
    assert refused["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in refused["message"]


def test_mps_waits_for_its_control_daemon(stage: Stage) -> None:
    stage.node(stage.run(flags=["--node-labels=pool=mps"]))
    sharing = {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}
    for each in device_plugin("mps", "mps", mps=sharing):
        stage.client.apply(each)
    stage.client.create(asking("shares", "nvidia.com/gpu.shared", 1) | {"spec": shares()})
    wait_until(lambda: daemons_are_ready(stage.client, "mps"), "the plugin")
    assert stage.pod("shares")["status"]["phase"] == "Pending"

    for each in device_plugin("mps-control", "mps", daemon="mps-control-daemon"):
        stage.client.apply(each)

    stage.wait_for_phase("shares", "Succeeded")


def shares() -> Object:
    return dict(asking("shares", "nvidia.com/gpu.shared", 1)["spec"] | {"nodeSelector": {"pool": "mps"}})


def daemons_are_ready(client: Client, name: str) -> bool:
    return bool(client.get(f"/apis/apps/v1/namespaces/default/daemonsets/{name}")["status"].get("numberReady"))


def test_an_add_on_runs_its_workloads_where_it_is_told(stage: Stage) -> None:
    name = stage.node(stage.run(config={"registerWithTaints": [TAINT]}))["metadata"]["name"]
    stage.cloud.eks.addons["eks-node-monitoring-agent"] = "{}"
    stage.cloud.eks.addons["somebodys"] = "{}"

    wait_until(lambda: "eks-node-monitoring-agent" in daemons(stage.client, name), "the agent")
    assert "dcgm-server" not in daemons(stage.client, name)
    stage.cloud.eks.addons["eks-node-monitoring-agent"] = '{"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}'

    wait_until(lambda: "dcgm-server" in daemons(stage.client, name), "the host engine")
    assert stage.addons.not_simulated == {"somebodys"}


def daemons(client: Client, node: str) -> set[str]:
    """Return the names of the DaemonSets with a pod that is ready on a node."""
    pods = client.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    return {owner(each, "DaemonSet") for each in pods if is_ready(each)}
