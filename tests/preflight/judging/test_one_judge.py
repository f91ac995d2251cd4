"""Every command reports the same result from the case: the fields that a queue adds to a pod count in all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.preflight.command_line.test_cli import Done

QUEUED = Path(__file__).parent / "queued_behind_a_taint.yaml"
UNQUEUED = ("kueue.x-k8s.io/queue-name: research", "app: train")
PENDING = "GPU120"


def variant(folder: Path, *replacements: tuple[str, str]) -> str:
    text = QUEUED.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    file = folder / "stack.yaml"
    file.write_text(text)
    return str(file)


def without_job(folder: Path) -> str:
    file = folder / "before.yaml"
    file.write_text(QUEUED.read_text().rpartition("---\n")[0])
    return str(file)


def answers(found: Any) -> set[str]:
    return {each["answer"] for cluster in found["clusters"] for each in cluster["workloads"]}


def rules_of(findings: Any) -> set[str]:
    return {each["id"] for each in findings}


def told(folder: Path, file: str) -> dict[str, Any]:
    """Each command's result for a file: exit code, whether the pod is Pending, and the answer in the JSON."""
    check = Done("check", file, "--format", "json")
    explain = Done("explain", file, "--format", "json")
    review = Done("review", without_job(folder), file, "--format", "json")
    after = review.json["clusters"]["after"]
    return {
        "check": (check.code, PENDING in rules_of(check.json["findings"]), answers(check.json)),
        "explain": (explain.code, explain.json["counts"]["no"] > 0, answers(explain.json)),
        "review": (review.code, PENDING in rules_of(review.json["new"]), answers({"clusters": after})),
    }


def test_a_job_that_its_queue_lets_through_the_taint_runs_for_every_command(tmp_path: Path) -> None:
    said = told(tmp_path, variant(tmp_path))

    assert set(said) == {"check", "explain", "review"}
    for command in said:
        assert said[command] == (0, False, {"yes"}), command


def test_the_same_job_without_a_queue_is_pending_for_every_command(tmp_path: Path) -> None:
    said = told(tmp_path, variant(tmp_path, UNQUEUED, ("suspend: true", "suspend: false")))

    assert said == dict.fromkeys(("check", "explain", "review"), (1, True, {"no"}))


def test_a_queue_whose_flavor_tolerates_something_else_changes_no_answer(tmp_path: Path) -> None:
    said = told(tmp_path, variant(tmp_path, ("{key: team, operator", "{key: other, operator")))

    assert said["check"][0] == said["explain"][0] == said["review"][0] == 1
    assert {frozenset(answer) for _, _, answer in said.values()} == {frozenset({"no"})}


def test_the_jobs_of_a_cron_job_are_queued_by_the_label_of_their_template(tmp_path: Path) -> None:
    queued = "  jobTemplate:\n    metadata: {labels: {kueue.x-k8s.io/queue-name: research}}\n    spec:\n"
    job = ("  suspend: true\n  template:\n", f'  schedule: "0 3 * * *"\n{queued}      template:\n')
    text = variant(tmp_path, ("kind: Job", "kind: CronJob"), ("labels: {kueue.x-k8s.io/queue-name: research}", ""), job)
    lines = Path(text).read_text().partition("      template:\n")
    Path(text).write_text(lines[0] + lines[1] + lines[2].replace("    ", "        "))

    said = told(tmp_path, text)

    assert said == dict.fromkeys(("check", "explain", "review"), (0, False, {"yes"}))


def test_the_words_say_the_same(tmp_path: Path) -> None:
    file = variant(tmp_path)

    assert "Every workload runs" in Done("explain", file).out
    checked = Done("check", file).out
    assert [each for each in ("would stay Pending", "stays Pending") if each in checked] == []
    assert "Pending" not in Done("review", without_job(tmp_path), file).out


def write(folder: Path, *objects: dict[str, Any]) -> str:
    """Two clusters, and objects that belong to both."""
    resources = {}
    for name in ("a", "b"):
        resources[f"Cluster{name}"] = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": name, "Version": "1.36"}}
        group = {
            "ClusterName": name,
            "AmiType": "AL2023_x86_64_NVIDIA",
            "InstanceTypes": ["g6.xlarge"],
            "ScalingConfig": {"MinSize": 1, "MaxSize": 1, "DesiredSize": 1},
        }
        resources[f"Nodes{name}"] = {"Type": "AWS::EKS::Nodegroup", "Properties": group}
    folder.mkdir()
    (folder / "stack.template.json").write_text(json.dumps({"Resources": resources}))
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(folder)


def pod(accepted: str = "", image: str = "example.com/train:1.0") -> dict[str, Any]:
    """A pod that fits no node of either cluster, and the rule that is acknowledged in it."""
    annotations = {f"gpu-constructs.io/acknowledge.{accepted}": "another cluster runs it"} if accepted else {}
    container = {"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    metadata = {"name": "train", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
PLUGIN = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "plugin"}},
        "template": {
            "metadata": {"labels": {"app": "plugin"}},
            "spec": {"containers": [{"name": "a", "image": IMAGE}]},
        },
    },
}


@pytest.mark.parametrize(("accepted", "code"), [(PENDING, 0), ("", 1)])
def test_what_is_accepted_in_one_of_two_clusters_stays_accepted(tmp_path: Path, accepted: str, code: int) -> None:
    old, new = write(tmp_path / "old", PLUGIN), write(tmp_path / "new", PLUGIN, pod(accepted))

    review = Done("review", old, new, "--format", "json")

    names = {each["name"]: each["after"] for each in review.json["workloads"]}
    assert names == {"a: Pod default/train": "no", "b: Pod default/train": "no"}
    found = [each for each in review.json["new"] if each["id"] == PENDING]
    assert [each["acknowledged"] is not None for each in found] == [bool(accepted)] * 2
    other = [each for each in (*review.json["new"], *review.json["standing"]) if each["fails"] and each not in found]
    assert (review.code, other) == (code, [])


def test_accepting_a_habit_of_a_pod_does_not_accept_that_it_is_pending(tmp_path: Path) -> None:
    moving = pod("GPU252", image="example.com/train:latest")
    old, new = write(tmp_path / "old", PLUGIN), write(tmp_path / "new", PLUGIN, moving)

    assert Done("review", old, new).code == 1
