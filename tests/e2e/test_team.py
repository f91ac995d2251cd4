"""A real API server takes the teams of docs/how-to/teams.md, and grants what that page lists, no more.

EKS' access policies are no part of Kubernetes: here Kubernetes' own roles replace them, by which EKS describes them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane, render_kubeconfig
from gpu_rehearsal.cluster.identities import AccessPolicies
from gpu_rehearsal.processes import wait_until
from tests.e2e.rig import UNDISTURBED
from tests.e2e.test_manifests_are_accepted import documents, is_served
from tests.templates import manifests_of, of_type
from tests.test_teams_page import synthesized, template_of
from tools import build_e2e_tools

CONTROLLERS = (
    "serviceaccount-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
)
# Objects that members of a team create, and objects that others create for them.
DEFINITIONS = ("jobset.x-k8s.io_jobsets", "ray.io_rayclusters", "kueue.x-k8s.io_localqueues", "karpenter.sh_nodeclaims")
FORBIDDEN = 403
ROLE = "arn:aws:iam::111122223333:role/"


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The template of the page's example."""
    return dict(template_of(synthesized(tmp_path_factory.mktemp("page")))["Resources"])


@pytest.fixture(scope="module")
def cluster(crds: Path, resources: dict[str, dict[str, Any]]) -> Iterator[ControlPlane]:
    """A control plane with the teams of the page, and controllers that fill in roles and count quotas."""
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with control_plane(folder, controllers=CONTROLLERS, scheduler=UNDISTURBED) as running:
        client = running.client
        for name in DEFINITIONS:
            for each in documents(crds / f"{name}.yaml"):
                client.apply(each)
                wait_until(partial(is_served, client, each), f"{name} to be served")
        ours = {"Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "Role", "RoleBinding"}
        ours |= {"ClusterRole", "ClusterRoleBinding", "LocalQueue"}
        ours |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
        found = [each for each in manifests_of(resources) if each["kind"] in ours]
        for each in sorted(found, key=lambda each: each["kind"] != "Namespace"):
            client.apply(each)
        path = "/api/v1/namespaces/nlp/resourcequotas/team"
        wait_until(lambda: bool(client.get(path).get("status", {}).get("hard")), "the quota to be counted")
        for namespace in ("nlp", "vision", "default"):
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            wait_until(lambda path=account: client.find(path) is not None, "service accounts")  # type: ignore[misc]
        for each in (service("nlp", "192.0.2.1"), service("vision", "192.0.2.1")):
            wait_until(lambda each=each: dry(client, each) != 0, "the policy to be in force")  # type: ignore[misc]
        yield running


@pytest.fixture(scope="module")
def as_principal(cluster: ControlPlane, resources: dict[str, dict[str, Any]]) -> Any:
    """A client of a principal, with the policies and groups of its access entry."""
    policies = AccessPolicies(cluster.client)
    entries = {
        str(each["Properties"]["PrincipalArn"]): each for each in of_type(resources, "AWS::EKS::AccessEntry").values()
    }

    def act(name: str) -> Client:
        said = entries[f"{ROLE}{name}"]["Properties"]
        associated = [
            {
                "policyArn": json.dumps(each["PolicyArn"]).rstrip('"]} '),
                "accessScope": {key.lower(): value for key, value in each["AccessScope"].items()},
            }
            for each in said["AccessPolicies"]
        ]
        groups = [*policies.groups(associated), *said["KubernetesGroups"], "system:authenticated"]
        return cluster.client.impersonating(name, groups)

    return act


def job_set(namespace: str) -> Object:
    template = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}}}
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"replicatedJobs": [{"name": "workers", "template": template}]},
    }


def dry(client: Client, manifest: Object) -> int:
    """Return 0 where the server would take an object, else its status."""
    try:
        client.create(manifest, dryRun="All")
    except ApiError as refused:
        return refused.status
    return 0


def reads(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError as refused:
        if refused.status != FORBIDDEN:
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("name", "here", "elsewhere"),
    [("Nlp", True, False), ("NlpLead", True, False), ("Vision", False, True), ("Everybody", False, False)],
)
def test_members_make_jobs_in_their_namespace_alone(as_principal: Any, name: str, here: bool, elsewhere: bool) -> None:
    client = as_principal(name)

    assert dry(client, job_set("nlp")) == (0 if here else FORBIDDEN)
    assert dry(client, job_set("vision")) == (0 if elsewhere else FORBIDDEN)
    assert dry(client, job_set("default")) == FORBIDDEN


QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/nlp/localqueues"


def test_members_see_their_queue_and_change_nothing_of_it(as_principal: Any) -> None:
    client = as_principal("Nlp")

    assert [each["metadata"]["name"] for each in client.list(QUEUES)] == ["nlp"]
    with pytest.raises(ApiError, match="403"):
        client.patch(f"{QUEUES}/nlp", {"spec": {"stopPolicy": "None"}})
    assert not reads(as_principal("Vision"), QUEUES)


@pytest.mark.parametrize(
    "kind", ["namespaces/nlp", "namespaces/nlp/resourcequotas/team", "namespaces/nlp/limitranges/team"]
)
def test_no_member_changes_what_bounds_the_team(as_principal: Any, kind: str) -> None:
    for name in ("Nlp", "NlpLead", "OnCall"):
        with pytest.raises(ApiError, match="403"):
            as_principal(name).patch(f"/api/v1/{kind}", {"metadata": {"labels": {"mine": "now"}}})


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/api/v1/nodes", True),
        ("/apis/karpenter.sh/v1/nodeclaims", True),
        ("/apis/ray.io/v1/rayclusters", True),
        (QUEUES, True),
        ("/api/v1/pods", True),
        ("/api/v1/secrets", False),
    ],
)
def test_viewers_and_operators_see_the_cluster_but_secrets(as_principal: Any, path: str, seen: bool) -> None:
    assert reads(as_principal("Everybody"), path) is seen
    assert reads(as_principal("OnCall"), path) is seen
    assert not reads(as_principal("Nlp"), path) or path == QUEUES


def pod(name: str = "pod", *, namespace: str = "nlp", gpus: int = 0, **container: Any) -> Object:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec = {"containers": [{"name": "main", "image": "none", "resources": resources, **container}]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def node(cluster: ControlPlane) -> Iterator[str]:
    """A node with a pod on it."""
    client = cluster.client
    client.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}})
    bound = pod("running", namespace="vision")
    bound["spec"]["nodeName"] = "gpu-1"
    client.create(bound)
    yield "gpu-1"
    client.delete(client.object_path(bound))
    client.delete("/api/v1/nodes/gpu-1")


def service(namespace: str, *addresses: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"ports": [{"port": 80}], "externalIPs": list(addresses)},
    }


@pytest.mark.parametrize("namespace", ["nlp", "vision"])
@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_no_pod_of_a_team_evicts_those_of_the_system(cluster: ControlPlane, namespace: str, name: str) -> None:
    critical = pod(namespace=namespace)
    critical["spec"]["priorityClassName"] = name

    assert "priorityClassName must not begin with 'system-'" in refused(cluster.client, critical)


def test_the_system_and_custom_priorities_keep_running(cluster: ControlPlane) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    cluster.client.apply(high)
    elsewhere, own = pod(namespace="default"), pod()
    elsewhere["spec"]["priorityClassName"] = "system-node-critical"
    own["spec"]["priorityClassName"] = "high"

    assert [dry(cluster.client, each) for each in (elsewhere, own, service("default", "192.0.2.1"))] == [0, 0, 0]


def test_no_service_of_a_team_takes_addresses(cluster: ControlPlane, as_principal: Any) -> None:
    member = as_principal("Nlp")

    assert "externalIPs must be empty" in refused(member, service("nlp", "192.0.2.1"))
    assert refused(member, service("nlp")) == ""
    path = cluster.client.object_path(service("nlp"))
    with pytest.raises(ApiError, match="externalIPs must be empty"):
        member.patch(path, {"spec": {"externalIPs": ["192.0.2.1"]}})
    member.patch(path, {"metadata": {"labels": {"app": "chat"}}})
    member.delete(path)


def test_a_service_keeps_the_addresses_that_it_had(cluster: ControlPlane) -> None:
    """Otherwise its finalizers could never be removed."""
    client, binding = cluster.client, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    name = f"{binding}/team-vision.gpu-constructs.io"
    before = client.get(name)
    client.delete(name)
    had = service("vision", "192.0.2.1")
    wait_until(lambda: dry(client, had) == 0, "the policy to be off")
    client.create(had)
    client.create(
        {key: before[key] for key in ("apiVersion", "kind", "spec")}
        | {"metadata": {"name": before["metadata"]["name"]}}
    )
    other = service("vision", "192.0.2.1") | {"metadata": {"name": "other", "namespace": "vision"}}
    wait_until(lambda: dry(client, other) != 0, "the policy to be in force")

    path = client.object_path(had)
    client.patch(path, {"metadata": {"labels": {"app": "chat"}}})
    with pytest.raises(ApiError, match="externalIPs must be empty"):
        client.patch(path, {"spec": {"externalIPs": ["192.0.2.1", "192.0.2.2"]}})
    client.patch(path, {"spec": {"externalIPs": []}})
    client.delete(path)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_operators_drain_a_node(cluster: ControlPlane, as_principal: Any, node: str, tmp_path: Path) -> None:
    acting = as_principal("OnCall")
    groups = [f"--as-group={value}" for header, value in acting._impersonated if header == "Impersonate-Group"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(render_kubeconfig(cluster.client)))
    command = ["kubectl", f"--kubeconfig={kubeconfig}", "--as=OnCall", *groups, "drain", node]
    done = subprocess.run(
        [*command, "--force", "--grace-period=0", "--timeout=30s"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert cluster.client.get(f"/api/v1/nodes/{node}")["spec"]["unschedulable"] is True
    assert cluster.client.find("/api/v1/namespaces/vision/pods/running") is None


def eviction(namespace: str, name: str) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}


def test_viewers_and_members_drain_nothing(as_principal: Any, node: str) -> None:
    for name in ("Everybody", "Vision", "NlpLead"):
        with pytest.raises(ApiError, match="403"):
            as_principal(name).patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    with pytest.raises(ApiError, match="403"):
        as_principal("Everybody").post("/api/v1/namespaces/vision/pods/running/eviction", eviction("vision", "running"))


def test_operators_end_and_scale_but_run_nothing(cluster: ControlPlane, as_principal: Any) -> None:
    labels = {"app": "chat"}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "vision"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod()["spec"]},
        },
    }
    cluster.client.create(deployment)
    cluster.client.create(job_set("vision"))
    operator, path = as_principal("OnCall"), cluster.client.object_path(deployment)

    operator.patch(f"{path}/scale", {"spec": {"replicas": 3}})
    operator.delete(cluster.client.object_path(job_set("vision")))
    operator.patch(f"{QUEUES}/nlp", {"spec": {"stopPolicy": "Hold"}})

    assert cluster.client.get(path)["spec"]["replicas"] == 3
    assert cluster.client.find(cluster.client.object_path(job_set("vision"))) is None
    for each in (
        pod(namespace="vision"),
        job_set("vision"),
        deployment | {"metadata": {"name": "b", "namespace": "nlp"}},
    ):
        assert dry(operator, each) == FORBIDDEN
    with pytest.raises(ApiError, match="403"):
        operator.patch(path, {"spec": {"template": {"spec": {"serviceAccountName": "other"}}}})


def refused(client: Client, manifest: Object) -> str:
    """Create an object, and return the server's words where it refuses."""
    try:
        client.create(manifest)
    except ApiError as answer:
        return answer.message
    return ""


def test_the_job_of_the_page_is_admitted_until_the_quota_is_full(
    cluster: ControlPlane, as_principal: Any, resources: dict[str, dict[str, Any]]
) -> None:
    [job] = [
        each for each in manifests_of(resources) if each["kind"] == "Job" and each["metadata"]["namespace"] == "nlp"
    ]
    template = job["spec"]["template"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": f"train-{at}", "namespace": "nlp"}}
        for at in range(5)
    ]

    answers = [refused(as_principal("Nlp"), each) for each in pods]
    for each in pods:
        cluster.client.delete(cluster.client.object_path(each))

    assert answers[:4] == [""] * 4
    assert "exceeded quota: team, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4" in answers[4]


def test_a_container_that_asks_for_nothing_gets_what_the_quota_wants(cluster: ControlPlane) -> None:
    made = cluster.client.create(pod(), dryRun="All")

    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi"}


def claim(count: int) -> Object:
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"gpus-{count}", "namespace": "nlp"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def test_claims_of_gpus_are_counted_as_well(cluster: ControlPlane, as_principal: Any) -> None:
    assert "exceeded quota: team" in refused(as_principal("Nlp"), claim(5))
    assert refused(as_principal("Nlp"), claim(4)) == ""


@pytest.mark.parametrize(
    ("container", "word"),
    [
        ({"securityContext": {"privileged": True}}, "privileged"),
        ({"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}, "non-default capabilities"),
        ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "hostPort"),
    ],
)
def test_the_level_refuses_what_is_beyond_it(as_principal: Any, container: dict[str, Any], word: str) -> None:
    answer = refused(as_principal("Nlp"), pod(**container))

    assert 'violates PodSecurity "baseline:latest"' in answer
    assert word in answer
