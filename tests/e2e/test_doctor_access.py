"""A real API server grants a principal of DoctorAccess each read of doctor, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs.teams import DoctorAccess
from gpu_facts.doctor_reads import CONFIG_MAPS, RESOURCES
from gpu_preflight.doctor.collector import Collector
from gpu_preflight.doctor.connection import Refused
from gpu_rehearsal.cluster.client import FORBIDDEN, ApiError, Client
from gpu_rehearsal.cluster.control_plane import control_plane
from gpu_rehearsal.processes import wait_until
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS
from tests.e2e.rig import UNDISTURBED
from tests.e2e.test_manifests_are_accepted import documents, is_served
from tests.templates import manifests_of, only, resources_of
from tools import build_e2e_tools

ON_CALL = "arn:aws:iam::111122223333:role/OnCall"


class Api:
    """The API server, as the collector reads it."""

    time = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the answer of the server."""
        try:
            return self._client.get(path, **parameters)
        except ApiError as error:
            raise Refused(error.message, error.status) from None


@pytest.fixture(scope="module")
def doctor(crds: Path) -> Iterator[Client]:
    """The principal of a DoctorAccess, in a cluster with its objects and the custom resources that doctor reads."""
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
    DoctorAccess(stack, "Doctor", cluster=imported_cluster(stack, imported_vpc(stack)), principals=[ON_CALL])
    resources = resources_of(stack)
    with control_plane(folder, controllers=(), scheduler=UNDISTURBED) as running:
        client = running.client
        for resource in RESOURCES:
            name, _, group = resource.partition(".")
            file = crds / f"{group}_{name}.yaml"
            for each in documents(file) if file.exists() else ():
                client.apply(each)
                wait_until(partial(is_served, client, each), f"{resource} to be served")
        for name in (*CONFIG_MAPS, "others"):
            client.apply(object_of("ConfigMap", name, "kube-system"))
        client.apply({**object_of("Pod", "train"), "spec": {"containers": [{"name": "main", "image": "none"}]}})
        for each in manifests_of(resources):
            client.apply(each)
        wait_until(lambda: status(user(client), "/api/v1/nodes") == FORBIDDEN, "the server to check permissions")
        found = user(client, only(resources, "AWS::EKS::AccessEntry")["KubernetesGroups"])
        wait_until(lambda: status(found, "/api/v1/nodes") == 0, "the binding to be in force")
        yield found


def user(client: Client, groups: Sequence[str] = ()) -> Client:
    return client.impersonating("on-call", [*groups, "system:authenticated"])


def object_of(kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def status(client: Client, path: str) -> int:
    """Return 0 if the server answers, otherwise its status."""
    try:
        client.get(path)
    except ApiError as refused:
        return refused.status
    return 0


@pytest.mark.parametrize("namespace", ["default", None])
def test_doctor_reads_everything_that_it_asks_for(doctor: Client, namespace: str | None) -> None:
    dump = Collector(Api(doctor), namespace).collect("train" if namespace else None)

    assert dump.refused == []
    assert dump.complete == set(RESOURCES.values())
    assert {each.name for each in dump.objects if each.kind == "ConfigMap"} == set(CONFIG_MAPS)
    assert [each.name for each in dump.objects if each.kind == "Pod"] == ["train"]
    assert len(dump.unknown_kinds) < len(RESOURCES) / 2


def test_others_read_nothing(doctor: Client) -> None:
    dump = Collector(Api(user(doctor)), None).collect()

    assert dump.objects == []
    assert len(dump.refused) == len(RESOURCES) - len(dump.unknown_kinds) + len(CONFIG_MAPS)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/configmaps",
        "/api/v1/namespaces/kube-system/configmaps/others",
        "/api/v1/namespaces/default/pods/train/log",
        "/api/v1/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ],
)
def test_it_reads_nothing_else(doctor: Client, path: str) -> None:
    assert status(doctor, path) == FORBIDDEN


def test_it_writes_nothing(doctor: Client) -> None:
    pod = {**object_of("Pod", "other"), "spec": {"containers": [{"name": "main", "image": "none"}]}}
    with pytest.raises(ApiError, match=f"^{FORBIDDEN}"):
        doctor.create(pod, dryRun="All")
    with pytest.raises(ApiError, match=f"^{FORBIDDEN}"):
        doctor.delete("/api/v1/namespaces/default/pods/train")
