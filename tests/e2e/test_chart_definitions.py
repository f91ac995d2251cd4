"""Definitions inside charts on a real API server: helm leaves them, and our function applies them with its rights."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from gpu_constructs.installing.lambda_functions import rights
from gpu_facts import versions
from gpu_rehearsal.cluster.client import NOT_FOUND, ApiError, Client
from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.internet import Charts, Internet
from gpu_rehearsal.processes import wait_until
from tests.cloudformation import Answers, event_of
from tests.e2e.helm import Helm
from tests.e2e.test_charts import EMITTED
from tools import charts as packed

JOBSETS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
GROUP = "test-definitions"
# Charts whose definitions are not left: a release of their own has them, or a hook of the chart applies them.
UPGRADED = {"karpenter", "gpu-operator", "kai-scheduler"}


@pytest.fixture
def schemas(helm: Helm) -> Iterator[Callable[[], list[Any]]]:
    """JobSet's definition on the server; nothing is there before and afterwards."""
    remove_definition(helm.client)
    yield lambda: [each["schema"] for each in helm.client.get(JOBSETS)["spec"]["versions"]]
    helm.run("uninstall", versions.JOBSET.name)
    remove_definition(helm.client)


def remove_definition(client: Client) -> None:
    """Delete JobSet's definition, which ends when its objects have."""

    def is_gone() -> bool:
        try:
            client.get(JOBSETS)
        except ApiError as refused:
            return refused.status == NOT_FOUND
        return False

    client.delete(JOBSETS)
    wait_until(is_gone, "JobSet's definition to be gone")


def schemas_in(helm: Helm, pin: versions.Chart | packed.Packed) -> list[Any]:
    """The chart's version of it."""
    [found] = [
        each
        for each in yaml.safe_load_all(helm.definitions(pin))
        if each and each["metadata"]["name"] == JOBSETS.rpartition("/")[2]
    ]
    return [each["schema"] for each in found["spec"]["versions"]]


@pytest.fixture(scope="module")
def registry(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry of charts on this machine, and a repository of the same ones."""
    with Internet(Charts(helm.charts), Authority(tmp_path_factory.mktemp("authority"))) as server:
        yield server.address.removeprefix("http://")


@pytest.fixture
def function(helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The function with the programs of its layers; its aws signs in as the group that its access entry names."""
    (tmp_path / "kubectl").symlink_to(packed.kubectl())
    # The registry is on loopback, without TLS.
    (tmp_path / "helm").write_text(f'#!/bin/sh\nexec "{packed.helm()}" "$@" $(test "$1" = pull && echo --plain-http)\n')
    (tmp_path / "helm").chmod(0o755)
    config = json.loads(helm.kubeconfig.read_text())
    [administrator] = config["users"]
    as_function = administrator["user"] | {"as": "function", "as-groups": [GROUP]}
    config["users"] = [{"name": "function", "user": as_function}]
    config["contexts"][0]["context"]["user"] = "function"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "aws").write_text(f'#!/bin/sh\ncp "{tmp_path}/kubeconfig" "$KUBECONFIG"\n')
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = importlib.reload(importlib.import_module("gpu_constructs.installing.chart_definitions_handler"))
    monkeypatch.setattr(found.time, "sleep", lambda _: None)
    return found


@pytest.fixture(params=["oci", "http"])
def deploy(
    request: pytest.FixtureRequest, function: ModuleType, registry: str, helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[versions.Chart | packed.Packed], dict[str, Any]]]:
    """Apply the definitions of a chart as a deployment does."""
    answers = Answers(monkeypatch, function)
    granted = rights(GROUP)
    for each in granted:
        helm.client.apply(each)

    def deployed(pin: versions.Chart | packed.Packed) -> dict[str, Any]:
        where = f"oci://{registry}/{pin.name}" if request.param == "oci" else f"http://{registry}"
        asked = {"Cluster": "demo", "Chart": pin.name, "Repository": where, "Version": pin.version}
        function.handler(
            event_of("Definitions", "Update", asked), SimpleNamespace(get_remaining_time_in_millis=lambda: 270_000)
        )
        return answers.sent[-1]

    yield deployed
    for each in granted:
        helm.client.delete(helm.client.object_path(each))


Deploy = Callable[[Any], dict[str, Any]]


def test_helm_upgrades_none_and_the_function_does(helm: Helm, schemas: Callable[[], list[Any]], deploy: Deploy) -> None:
    assert helm.install(packed.OLD_JOBSET, values={}) == ""
    assert helm.install(versions.JOBSET, values={}) == ""
    older, newer = schemas_in(helm, packed.OLD_JOBSET), schemas_in(helm, versions.JOBSET)
    assert older != newer
    assert schemas() == older

    assert deploy(versions.JOBSET)["Status"] == "SUCCESS"

    assert schemas() == newer


def test_helm_refuses_those_of_somebody_else_until_the_function_has_taken_them(
    helm: Helm, schemas: Callable[[], list[Any]], deploy: Deploy
) -> None:
    """Those that kubectl made before, of another version: Helm 4 applies, and does not take over."""
    assert helm.kubectl("create", given=helm.definitions(packed.OLD_JOBSET)) == ""
    assert 'conflict with "kubectl-create"' in helm.install(versions.JOBSET, values={})

    assert deploy(versions.JOBSET)["Status"] == "SUCCESS"

    assert helm.install(versions.JOBSET, values={}) == ""
    assert schemas() == schemas_in(helm, versions.JOBSET)


def test_a_release_moves_up_and_back_as_deployments_do(
    helm: Helm, schemas: Callable[[], list[Any]], deploy: Deploy
) -> None:
    for pin in (packed.OLD_JOBSET, versions.JOBSET, packed.OLD_JOBSET):
        assert deploy(pin)["Status"] == "SUCCESS"
        assert helm.install(pin, values={}) == ""
        assert schemas() == schemas_in(helm, pin)


def test_its_rights_are_for_definitions_alone(deploy: Deploy, tmp_path: Path) -> None:
    def may(verb: str, what: str) -> bool:
        asked = [str(packed.kubectl()), "auth", "can-i", verb, what, "-A", "--kubeconfig", str(tmp_path / "kubeconfig")]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    verbs = ("get", "list", "create", "patch", "update", "delete")
    assert [each for each in verbs if may(each, "customresourcedefinitions")] == ["get", "create", "patch"]
    assert not [each for each in ("pods", "secrets", "nodes", "clusterroles") if may("get", each)]


def test_without_its_rights_nothing_is_applied(helm: Helm, schemas: Callable[[], list[Any]], deploy: Deploy) -> None:
    for each in rights(GROUP):
        helm.client.delete(helm.client.object_path(each))

    answer = deploy(versions.JOBSET)

    assert answer["Status"] == "FAILED"
    assert "forbidden" in answer["Reason"]


@pytest.mark.parametrize("pin", dict.fromkeys(pin for pin, _ in EMITTED), ids=lambda each: each.name)
def test_we_know_which_charts_leave_their_definitions(pin: versions.Chart, helm: Helm) -> None:
    left = bool(helm.definitions(pin).strip()) and pin.name not in UPGRADED

    assert left == pin.leaves_definitions
