"""Two versions of an app on the real API server, each applied as the CDK's handler does, in CloudFormation's order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_constructs.teams import TeamQuota
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.control_plane import control_plane, render_kubeconfig
from tests.e2e.rig import UNDISTURBED
from tests.second_deployments.deployments import in_order, manifest_text, version
from tests.second_deployments.test_identities import scaled, served, team, volume
from tests.templates import Resources
from tools import build_e2e_tools
from tools import charts as packed

# Controllers that remove the finalizers of claims and volumes, bind them, and empty namespaces.
CONTROLLERS = (
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
CHAT = "apis/apps/v1/namespaces/{}/deployments/chat"


class Deployment:
    """CloudFormation and the handler, as far as objects of Kubernetes go.

    Source: kubectl-handler/apply/__init__.py of aws-cdk-lib 2.275
    """

    def __init__(self, kubeconfig: Path, client: Client) -> None:
        self.kubeconfig, self.client = kubeconfig, client
        self.deployed: Resources = {}

    def kubectl(self, verb: str, resource: dict[str, object]) -> None:
        """Run kubectl as the handler does."""
        command = [str(packed.kubectl()), verb, "--kubeconfig", str(self.kubeconfig), "-f", "-"]
        text = manifest_text(resource)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise ValueError(done.stderr)

    def deploy(self, resources: Resources) -> None:
        """Create and update what the template has, and then delete what it has no more."""
        for id in in_order(resources):
            if resources[id]["Properties"] != self.deployed.get(id, {}).get("Properties"):
                self.kubectl("apply", resources[id])
        for id in reversed(in_order(self.deployed)):
            if id not in resources and self.deployed[id]["DeletionPolicy"] == "Delete":
                self.kubectl("delete", self.deployed[id])
        self.deployed = resources

    def found(self, path: str) -> Object | None:
        """Return an object; ``None`` where there is none."""
        return self.client.find(f"/{path}")


@pytest.fixture
def deployment(tmp_path: Path, crds: Path) -> Iterator[Deployment]:
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with control_plane(folder, controllers=CONTROLLERS, scheduler=UNDISTURBED) as plane:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(render_kubeconfig(plane.client)))
        plane.client.apply(yaml.safe_load((crds / "keda.sh_scaledobjects.yaml").read_text()))
        plane.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
        yield Deployment(kubeconfig, plane.client)


def uid(found: Object | None) -> str:
    assert found is not None
    return str(found["metadata"]["uid"])


def test_a_moved_construct_keeps_running(deployment: Deployment) -> None:
    deployment.deploy(version(served("Chat")))
    before = uid(deployment.found(CHAT.format("default")))

    deployment.deploy(version(served("Serving/Llm")))

    assert uid(deployment.found(CHAT.format("default"))) == before


def test_another_namespace_leaves_nothing_behind(deployment: Deployment) -> None:
    deployment.deploy(version(served()))
    deployment.deploy(version(served(namespace="prod")))

    assert deployment.found(CHAT.format("default")) is None
    assert deployment.found("api/v1/namespaces/default/services/chat") is None
    assert deployment.found("apis/policy/v1/namespaces/default/poddisruptionbudgets/chat") is None
    assert deployment.found(CHAT.format("prod")) is not None


def test_a_team_loses_its_quota_and_keeps_its_data(deployment: Deployment) -> None:
    deployment.deploy(version(team(quota=TeamQuota(gpus=4))))
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data", "namespace": "nlp"}}
    deployment.client.create(data)
    deployment.deploy(version(team()))

    assert deployment.found("api/v1/namespaces/nlp/resourcequotas/team") is None

    deployment.deploy(version(team(namespace="vision")))
    assert deployment.found("api/v1/namespaces/vision") is not None
    assert deployment.found("api/v1/namespaces/nlp/configmaps/data") is not None


def test_one_scaler_takes_the_place_of_another(deployment: Deployment) -> None:
    autoscaler = "apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/chat"
    keda = "apis/keda.sh/v1alpha1/namespaces/default/scaledobjects/chat"
    deployment.deploy(version(scaled(by_keda=False)))
    before = uid(deployment.found(CHAT.format("default")))

    deployment.deploy(version(scaled(by_keda=True)))
    assert (deployment.found(autoscaler) is None, deployment.found(keda) is None) == (True, False)

    deployment.deploy(version(scaled(by_keda=False)))
    assert (deployment.found(autoscaler) is None, deployment.found(keda) is None) == (False, True)
    assert uid(deployment.found(CHAT.format("default"))) == before


def test_another_cache_is_another_claim(deployment: Deployment) -> None:
    deployment.deploy(version(served(cache_gib=10)))
    [before] = deployment.client.list("/api/v1/namespaces/default/persistentvolumeclaims")
    server = uid(deployment.found(CHAT.format("default")))

    deployment.deploy(version(served(cache_gib=20)))

    [after] = deployment.client.list("/api/v1/namespaces/default/persistentvolumeclaims")
    assert before["metadata"]["name"] != after["metadata"]["name"]
    assert uid(deployment.found(CHAT.format("default"))) == server


def test_a_mount_becomes_writable_in_place(deployment: Deployment) -> None:
    deployment.deploy(version(volume()))
    deployment.deploy(version(volume(read_only=False)))

    volume_of = deployment.client.get("/api/v1/persistentvolumes/default.data")
    assert "read-only" not in volume_of["spec"]["mountOptions"]


def test_what_the_docs_say_is_rejected_is_rejected(deployment: Deployment) -> None:
    deployment.deploy(version(volume()))

    with pytest.raises(ValueError, match="immutable"):
        deployment.deploy(version(volume(cache_gib=10)))


def test_a_creation_that_failed_halfway_is_repeated(deployment: Deployment) -> None:
    first = version(served())
    deployment.kubectl("apply", first[in_order(first)[0]])

    deployment.deploy(first)

    assert deployment.found(CHAT.format("default")) is not None
