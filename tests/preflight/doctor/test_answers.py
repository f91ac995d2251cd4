"""The first sentence of doctor, and its refusals, for dumps that lack something or hold something unusual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.doctor.causes.join import _default_route
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.unused import unused_gpus
from tests.preflight.command_line.test_cli import Done
from tests.preflight.doctor.clusters import NEW_NODE, cluster, node, pod

_RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}


def _write(folder: Path, **lists: list[dict[str, Any]] | str) -> str:
    for name, items in lists.items():
        content = items if isinstance(items, str) else json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        (folder / f"{name}.json").write_text(content)
    return str(folder)


def _first(done: Done) -> str:
    return " ".join(done.out.partition("\n\n")[0].split())


def test_a_dump_without_pods_does_not_say_that_pods_run(tmp_path: Path) -> None:
    dump = _write(tmp_path, nodes=[node()], pods='{"items": [')
    done = Done("doctor", dump, "--strict")
    assert _first(done).startswith("The dump doesn't have the list of pods")
    assert f"{tmp_path / 'pods.json'}: must be JSON" in " ".join(done.out.split())
    assert done.code == 1


def test_a_dump_whose_only_file_is_broken_names_the_fault(tmp_path: Path) -> None:
    done = Done("doctor", _write(tmp_path, pods='{"items": ['))
    assert done.code == 2
    assert "pods.json: must be JSON" in done.err


@pytest.mark.parametrize("items", ['"x"', "{}", "5"])
@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_a_list_whose_items_are_no_list_is_not_complete(tmp_path: Path, kind: str, items: str) -> None:
    text = f'{{"apiVersion": "v1", "kind": "{kind}", "items": {items}}}'
    done = Done("doctor", _write(tmp_path, pods=text, nodes=[]))
    assert _first(done).startswith("The dump doesn't have the list of pods")


def test_a_dump_without_gpu_pods_says_so(tmp_path: Path) -> None:
    assert _first(Done("doctor", _write(tmp_path, pods=[]))) == "No pod in the dump requests a GPU"


def test_a_pod_that_runs_is_a_known_result(tmp_path: Path) -> None:
    done = Done("doctor", _write(tmp_path, pods=[pod(status=_RUNNING)]), "train", "--strict")
    assert _first(done) == "Pod default/train runs"
    assert done.code == 0


def test_an_answer_without_nodes_says_that_they_are_missing(tmp_path: Path) -> None:
    done = Done("doctor", _write(tmp_path, pods=[pod()]))
    assert _first(done) == (
        "Pod default/train doesn't run, and no cause is found; the dump doesn't have the list of nodes"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-n", "defualt"), "--namespace must be a namespace of the dump, got 'defualt'; did you mean 'default'?"),
        (("-n", "zzz"), "--namespace must be a namespace of the dump, got 'zzz'; it has default"),
        (("trian",), "got 'trian'; did you mean 'train'?"),
        (("team/train",), "got 'team/train'; the dump has Pod default/train"),
        (("deployment/train",), "got 'deployment/train'; the dump has Pod default/train"),
        (("train", "x"), "one POD may be given, got 'train' and 'x', which are no files or folders"),
        (("--at", "yesterday"), "must be a time such as 2026-11-20T10:00:00Z, got 'yesterday'"),
        (("--at", "2026-11-20"), "must be a time such as 2026-11-20T10:00:00Z, got '2026-11-20'"),
    ],
)
def test_a_wrong_word_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    done = Done("doctor", _write(tmp_path, pods=[pod()]), *arguments)
    assert done.code == 2
    assert text in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["pod/train", "po/train", "pods/train", "deploy/serve", "deployments/serve", "rs/serve-1"]
)
def test_a_kind_may_be_written_as_kubectl_reads_it(tmp_path: Path, name: str) -> None:
    owned = [("Deployment", "serve", None), ("ReplicaSet", "serve-1", ("Deployment", "serve"))]
    owners = [_owner(*each) for each in owned]
    replica = pod("serve-1-x", metadata={"ownerReferences": _references(("ReplicaSet", "serve-1"))})
    done = Done("doctor", _write(tmp_path, pods=[pod(), replica], owners=owners), name)
    assert _first(done).startswith(f"Pod default/{'train' if 'train' in name else 'serve-1-x'} doesn't run")


def _references(owner: tuple[str, str] | None) -> list[dict[str, Any]]:
    return [] if owner is None else [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True}]


def _owner(kind: str, name: str, above: tuple[str, str] | None) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "ownerReferences": _references(above)}
    template = {"spec": pod()["spec"]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}


def test_a_time_with_an_offset_is_accepted(tmp_path: Path) -> None:
    done = Done("doctor", _write(tmp_path, pods=[pod()]), "--at", "2026-11-20T10:00:00+02:00", "--format", "json")
    assert json.loads(done.out)["at"] == "2026-11-20T08:00:00Z"


def test_a_path_that_does_not_exist_is_named_if_there_is_no_cluster(tmp_path: Path) -> None:
    done = Done("doctor", "dmup", environment={"KUBECONFIG": str(tmp_path / "none")})
    assert done.code == 2
    assert "'dmup' is no file or folder" in done.err


def test_a_long_message_is_cut_except_in_json(tmp_path: Path) -> None:
    failed = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: " + "x " * 20_000}
    dump = _write(tmp_path, pods=[pod(status={"conditions": [failed]})])
    assert len(Done("doctor", dump).out) < 4_000
    assert len(Done("doctor", dump, "--format", "json").out) > 40_000


def test_a_time_out_of_range_is_no_time() -> None:
    assert parse_time("0001-01-01T00:00:00+14:00") is None


def test_a_node_without_allocatable_resources_has_those_of_its_capacity() -> None:
    new = {**node(), "status": {"capacity": {"cpu": "4", "pods": "58", "nvidia.com/gpu": "2"}, "allocatable": []}}
    live = cluster("karpenter", new, pod(node=NEW_NODE, status=_RUNNING))
    found = next(each for each in unused_gpus(live) if each.node == NEW_NODE)
    assert (found.idle, found.why) == (1, "pods use some of its GPUs")


def test_an_answer_of_aws_in_another_form_is_ignored() -> None:
    live = cluster("managed", without=("serve-6d5f8b7c9-aaaaa",))
    live.dump.aws["nodegroup"] = [("group.json", [[1.5], "x", None])]
    assert next(unused_gpus(live)).idle == 1


def test_a_subnet_id_that_is_no_text_is_ignored() -> None:
    live = cluster("managed")
    live.dump.aws |= {"Subnets": [("s.json", [{"SubnetId": ["a"], "VpcId": "v"}])], "RouteTables": [("r.json", [{}])]}
    assert _default_route(live, "subnet-1") is None


def test_pods_without_a_cause_come_last_and_are_no_reason(tmp_path: Path) -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "example.com/quota"}]})
    done = Done("doctor", _write(tmp_path, pods=[pod("a"), gated]))
    assert _first(done) == "2 GPU pods don't run, for 1 reason; no cause is found for 1 pod"
    assert done.out.index("Pod default/gated doesn't run") < done.out.index("Pod default/a doesn't run")


def test_the_page_has_no_table_of_causes_which_a_narrow_window_would_cut(tmp_path: Path) -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "<b>"}]})
    page = Done("doctor", _write(tmp_path, pods=[gated]), "--format", "html").out
    assert "<table" not in page
    assert '<dt>cause</dt><dd class="answer no">P9' in page
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(("form", "empty"), [("html", '<dl class="rows"></dl>'), ("markdown", "|  |  |")])
def test_a_pod_that_runs_has_no_empty_table(form: str, empty: str, tmp_path: Path) -> None:
    bound = pod("done", spec={"nodeName": "gone"}, status={"phase": "Running"})

    done = Done("doctor", _write(tmp_path, pods=[bound]), "done", "--format", form)

    assert "Pod default/done runs" in done.out
    assert empty not in done.out
