"""`doctor --node` and `--pool`: which pods they concern, and why the place doesn't take them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.preflight.command_line.test_cli import Done
from tests.preflight.doctor.cases import FOLDER

_LIMIT, _TAINT, _IDLE = (
    str(FOLDER / "planted" / each) for each in ("k11-limit-zero", "k7-dedicated-taint", "none-runs-after-a-wait")
)
_NODE = "ip-10-0-1-11.ec2.internal"


def _answer(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Done("doctor", *arguments, "--format", "json").out)
    return found


def test_a_pool_that_does_not_grow_is_explained_with_its_nodes() -> None:
    answer = _answer(_LIMIT, "--pool", "gpu")
    assert answer["place"] == "pool gpu"
    assert [each["place"] for each in answer["diagnoses"]] == [
        "pool gpu doesn't take the pod: its limit of 0 nvidia.com/gpu allows no node; raise it"
    ]
    # Its only GPU is in use.
    assert [(each["node"], each["idle"]) for each in answer["nodes"]] == [(_NODE, 0)]


def test_pods_of_other_namespaces_may_wait_for_a_pool() -> None:
    assert _answer(_LIMIT, "--pool", "gpu", "-n", "kube-system")["headline"] == (
        "No GPU pod of namespace kube-system waits for a node in pool gpu"
    )


def test_another_pool_has_its_own_reason() -> None:
    assert "taint dedicated=training" in _answer(_TAINT, "--pool", "training")["diagnoses"][0]["place"]
    assert "a running node has 0 of 1 free" in _answer(_TAINT, "--node", _NODE)["diagnoses"][0]["place"]


def test_a_pool_without_waiting_pods_has_no_reason_to_grow() -> None:
    done = Done("doctor", _IDLE, "--pool", "gpu")
    assert done.code == 0
    assert done.out.startswith("No GPU pod waits for a node, so pool gpu has no reason to grow")
    assert "Nodes with GPUs: pool gpu" in done.out


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_each_format_names_the_place(form: str) -> None:
    out = " ".join(Done("doctor", _LIMIT, "--pool", "gpu", "--format", form).out.split())
    assert "its limit of 0" in out
    assert "Nodes with GPUs: pool gpu" in out


def test_pods_of_other_nodes_are_left_out(tmp_path: Path) -> None:
    for each in Path(_LIMIT).glob("*.json"):
        (tmp_path / each.name).write_text(each.read_text())
    pods = json.loads((tmp_path / "pods.json").read_text())
    failing = next(
        each
        for each in pods["items"]
        if each["spec"].get("nodeName") == _NODE and "nvidia.com/gpu" in str(each["spec"]["containers"])
    )
    failing["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
    (tmp_path / "pods.json").write_text(json.dumps(pods))
    title = f"Pod {failing['metadata']['namespace']}/{failing['metadata']['name']}"

    def pods_of(*place: str) -> list[str]:
        return [pod for each in _answer(str(tmp_path), *place)["diagnoses"] for pod in each["pods"]]

    assert title in pods_of("--node", _NODE)
    assert title in pods_of("--pool", "gpu")
    assert title not in pods_of("--node", "ip-10-0-32-4.ec2.internal")


def test_a_pool_that_is_not_ready_says_so_without_a_pod(tmp_path: Path) -> None:
    failed = {"type": "Ready", "status": "False", "message": "NodeClassReady=False"}
    pool = {"metadata": {"name": "gpu"}, "spec": {}, "status": {"conditions": [failed]}}
    items = {"nodepools.karpenter.sh": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **pool}], "pods": []}
    for name, listed in {**items, "nodes": []}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    assert _answer(str(tmp_path), "--pool", "gpu")["headline"] == (
        "No GPU pod waits for a node, so pool gpu has no reason to grow; its condition Ready is False: "
        "NodeClassReady=False"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--pool", "gpuu"), "--pool must be a NodePool or node group of the dump, got 'gpuu'; did you mean 'gpu'?"),
        (("--node", "x"), f"--node must be a node of the dump, got 'x'; it has {_NODE}, "),
        (("--node", _NODE, "--pool", "gpu"), "POD, --node and --pool must be given alone, got several"),
        (("--pool", "gpu", "train"), "POD, --node and --pool must be given alone, got several"),
    ],
)
def test_a_wrong_place_is_refused(arguments: tuple[str, ...], text: str) -> None:
    done = Done("doctor", _LIMIT, *arguments)
    assert done.code == 2
    assert text in done.err


def test_a_node_claim_without_a_node_is_refused_with_its_state() -> None:
    case = next(
        each
        for each in sorted((FOLDER / "planted").iterdir())
        if "k20" in each.name and (each / "nodeclaims.karpenter.sh.json").exists()
    )
    claims = json.loads((case / "nodeclaims.karpenter.sh.json").read_text())["items"]
    name = next(each["metadata"]["name"] for each in claims if "nodeName" not in each.get("status", {}))
    assert (
        f"got NodeClaim {name}, which has no node yet; name its pool" in Done("doctor", str(case), "--node", name).err
    )
