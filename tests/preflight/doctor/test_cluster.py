"""Doctor on a cluster: its requests, its records, and its end when a request is refused or the server breaks."""

from __future__ import annotations

import copy
import json
import os
import sys
import zipfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from gpu_preflight.doctor import connection
from gpu_preflight.doctor.dump import parse_time
from tests.preflight.command_line.test_cli import Done
from tests.preflight.doctor.cases import FOLDER
from tests.preflight.doctor.server import ApiServer, Faults, serving

pytest.importorskip("lightkube", reason="the extra gpu-constructs[doctor] isn't installed")

KARPENTER = str(FOLDER / "bases" / "karpenter")
# All GPUs are in use.
WAITING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train",
        "namespace": "default",
        "uid": "11111111-0000-4000-8000-000000000001",
        "creationTimestamp": "2026-11-20T09:59:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{'secret-in-annotation'}"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [
            {
                "name": "app",
                "image": "app:1",
                "env": [{"name": "TOKEN", "value": "secret-in-environment"}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2026-11-20T09:59:01Z",
                "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            }
        ],
    },
}


def cluster(folder: Path, faults: Faults | None = None, *, page: int | None = None) -> ApiServer:
    """Return a server with a pod that waits."""
    (folder / "pod.json").write_text(json.dumps(WAITING))
    return ApiServer([KARPENTER, str(folder / "pod.json")], faults, page=page)


def ask(
    server: ApiServer, folder: Path, *arguments: str, user: dict[str, object] | None = None, aws: str = "--no-aws"
) -> Done:
    """Run doctor on a server."""
    with serving(server, folder, user) as file:
        return Done("doctor", *arguments, aws, environment={"KUBECONFIG": file})


@pytest.fixture(autouse=True)
def _short_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS_PER_REQUEST", 0.5)
    monkeypatch.setattr(connection, "_MAX_WAIT", 0.01)


def test_one_pod_is_answered_from_the_cluster(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path), tmp_path, "train")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith(
        "Pod default/train doesn't run: it needs 1 nvidia.com/gpu, and 0 are free on the 2 nodes"
    )


def test_only_get_requests_of_objects_and_lists_are_made(tmp_path: Path) -> None:
    server = cluster(tmp_path)
    ask(server, tmp_path, "train")
    assert {method for method, _ in server.requests} == {"GET"}
    assert not [path for _, path in server.requests if "watch" in path or "secrets" in path or "/log" in path]
    source = (Path(connection.__file__).parent / "connection.py").read_text()
    assert not [verb for verb in (".post(", ".put(", ".patch(", ".delete(", ".request(", ".stream(") if verb in source]


def test_lists_are_read_in_pages(tmp_path: Path) -> None:
    server = cluster(tmp_path, page=1)
    done = ask(server, tmp_path, "train")
    assert done.code == 1
    assert sum("/nodes?" in path for _, path in server.requests) == 3
    assert "Not looked at" not in done.out


def test_a_record_gives_the_same_answer_without_the_cluster(tmp_path: Path) -> None:
    record = str(tmp_path / "case.zip")
    live = ask(cluster(tmp_path), tmp_path, "train", "--record", record, "--format", "json", aws="--aws")
    assert "aws eks get-token" in live.out
    for arguments in ((record, "train"), ("train", "--replay", record)):
        again = Done("doctor", *arguments, "--format", "json")
        assert (again.code, again.out) == (live.code, live.out)


def test_a_record_has_no_environment_values_and_no_applied_manifests(tmp_path: Path) -> None:
    record = tmp_path / "case.zip"
    ask(cluster(tmp_path), tmp_path, "train", "--record", str(record))
    with zipfile.ZipFile(record) as packed:
        text = "".join(packed.read(each).decode() for each in packed.namelist())
    assert "train" in text
    assert not [secret for secret in ("secret-in", "managedFields", "secret-token") if secret in text]


@pytest.mark.parametrize("resource", ["nodes", "pods", "events", "nodepools", "daemonsets", "apis"])
def test_what_is_forbidden_is_listed_as_not_looked_at(tmp_path: Path, resource: str) -> None:
    path = "/apis" if resource == "apis" else f"/{resource}"
    server = cluster(tmp_path, Faults(status={path: 403}))
    done = ask(server, tmp_path, "train")
    if resource in ("pods", "apis"):
        assert done.code in (1, 2)
        return
    assert done.code in (0, 1)
    assert f"{resource}" in done.out.partition("Not looked at")[2]
    assert "Forbidden" in done.out.partition("Not looked at")[2]


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path, Faults(busy={"/nodes": 1})), tmp_path, "train")
    assert done.code == 1
    assert "Not looked at" not in done.out


def test_half_an_answer_is_not_looked_at(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path, Faults(broken=("/events",))), tmp_path, "train")
    assert done.code == 1
    assert "events: the answer isn't JSON" in done.out


def test_a_page_that_fails_makes_the_list_incomplete(tmp_path: Path) -> None:
    server = cluster(tmp_path, page=2)
    whole = server.answer

    def second_page_fails(method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        if "continue=" in target and "/pods" in target:
            return 410, {}, b'{"message": "The provided continue parameter is too old"}'
        return whole(method, target)

    server.answer = second_page_fails  # type: ignore[method-assign]
    done = ask(server, tmp_path, "train")
    assert "pods: The provided continue parameter is too old" in " ".join(done.out.split())


def test_a_server_that_goes_away_ends_with_what_is_known(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path, Faults(gone_after=6)), tmp_path, "train")
    assert done.code in (0, 1)
    assert "Not looked at" in done.out


def test_a_slow_list_is_not_looked_at(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path, Faults(slow={"/replicasets": 1.0})), tmp_path, "train")
    assert done.code == 1
    assert "replicasets" in done.out.partition("Not looked at")[2]


def test_a_server_that_never_answers_is_one_line(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path, Faults(gone_after=0)), tmp_path, "train")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("gpu-constructs: the cluster must answer, got: ")


def test_credentials_of_a_program_are_used(tmp_path: Path) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(answer))})"],
    }
    assert ask(cluster(tmp_path), tmp_path, "train", user={"exec": program}).code == 1


def test_a_program_for_credentials_that_fails_is_one_line(tmp_path: Path) -> None:
    program = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": ["-c", "import sys; sys.exit('token is expired')"],
    }
    done = ask(cluster(tmp_path), tmp_path, "train", user={"exec": program})
    assert done.code == 2
    assert "token is expired" in done.err


def test_an_unknown_context_names_the_known_ones(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path), tmp_path, "--context", "prdo")
    assert done.code == 2
    assert "--context must be one of prod, got 'prdo'; did you mean 'prod'?" in done.err


def test_a_pod_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    done = ask(cluster(tmp_path), tmp_path, "trian")
    assert done.code == 2
    assert "POD must be a pod or an owner of pods in the dump, got 'trian'" in done.err
    assert "did you mean 'train'?" in done.err


def test_a_list_is_read_in_the_version_of_its_group_that_has_it(tmp_path: Path) -> None:
    server = cluster(tmp_path)
    own = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g", "namespace": "a"}}
    whole = server.answer

    def two_versions(method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        if target.startswith("/apis/scheduling.run.ai/v2/podgroups"):
            return 404, {}, b'{"message": "the server could not find the requested resource"}'
        if target.startswith("/apis/scheduling.run.ai/v2alpha2/podgroups"):
            return 200, {}, json.dumps({"apiVersion": own["apiVersion"], "items": [own]}).encode()
        status, headers, body = whole(method, target)
        if target.startswith("/apis?") or target == "/apis":
            versions = [{"version": "v2"}, {"version": "v2alpha2"}]
            group = {"name": "scheduling.run.ai", "preferredVersion": versions[0], "versions": versions}
            body = json.dumps({"groups": [*json.loads(body)["groups"], group]}).encode()
        return status, headers, body

    server.answer = two_versions  # type: ignore[method-assign]
    record = tmp_path / "case.zip"
    ask(server, tmp_path, "--record", str(record))
    with zipfile.ZipFile(record) as packed:
        found = json.loads(packed.read("podgroups.scheduling.run.ai.json"))
    assert [each["metadata"]["name"] for each in found["items"]] == ["g"]


@pytest.mark.parametrize("path", ["/apis", "/pods", "/nodes"])
def test_an_answer_that_is_no_list_does_not_prove_that_there_is_nothing(tmp_path: Path, path: str) -> None:
    server = cluster(tmp_path)
    whole = server.answer

    def odd(method: str, target: str) -> tuple[int, dict[str, str], bytes]:
        return (200, {}, b"{}") if urlparse(target).path.endswith(path) else whole(method, target)

    server.answer = odd  # type: ignore[method-assign]
    done = ask(server, tmp_path)
    name = path.strip("/")
    assert f"{name}: the answer isn't a list" in done.out


def test_failed_pods_are_read_and_pods_that_succeeded_are_not(tmp_path: Path) -> None:
    failed = copy.deepcopy(WAITING)
    failed["metadata"] = {"name": "rejected", "namespace": "default"}
    reason = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no healthy devices present"}
    failed["status"] = {"phase": "Failed", **reason}
    (tmp_path / "failed.json").write_text(json.dumps(failed))
    (tmp_path / "pod.json").write_text(json.dumps({**WAITING, "status": {"phase": "Succeeded"}}))
    server = ApiServer([KARPENTER, str(tmp_path / "pod.json"), str(tmp_path / "failed.json")])
    record = tmp_path / "case.zip"
    done = ask(server, tmp_path, "--record", str(record))
    assert done.out.startswith("Pod default/rejected doesn't run")
    with zipfile.ZipFile(record) as packed:
        names = [each["metadata"]["name"] for each in json.loads(packed.read("pods.json"))["items"]]
    assert "rejected" in names
    assert "train" not in names


def test_the_time_of_a_live_answer_is_that_of_the_server(tmp_path: Path) -> None:
    with serving(cluster(tmp_path), tmp_path) as file:
        environment = {"KUBECONFIG": file, "SOURCE_DATE_EPOCH": "1000000000"}
        done = Done("doctor", "train", "--no-aws", "--format", "json", environment=environment)
    at = parse_time(json.loads(done.out)["at"])
    assert at is not None
    assert abs((datetime.now(timezone.utc) - at).total_seconds()) < 60


@pytest.mark.parametrize("date", [None, "", "yesterday", "99 Foo"])
def test_a_header_without_a_time_has_none(date: str | None) -> None:
    assert connection._header_time(date) is None


def test_the_current_context_of_the_second_file_counts_if_the_first_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("apiVersion: v1\nkind: Config\n")
    second.write_text("apiVersion: v1\nkind: Config\ncurrent-context: prod\n")
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    assert connection.read_kubeconfig()[0]["current-context"] == "prod"
