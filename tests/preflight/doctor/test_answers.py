"""The first sentence of doctor, and its refusals, for dumps that lack something or hold something unusual."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest

from gpu_preflight.doctor.causes.join import _default_route
from gpu_preflight.doctor.diagnosis import diagnose, find_target
from gpu_preflight.doctor.dump import parse_time, read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.patches import patch_command, tolerating, tried
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


_BASE = {"apiVersion": "v1"}


def _read(folder: Path, **files: Any) -> Live:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return Live(read_dump([str(folder)]))


@pytest.mark.parametrize(
    ("kind", "namespaces", "expected"),
    [("Pod", ("a", "a"), "likely"), ("Job", (), "likely"), ("Pod", ("a", "b"), "proven"), ("Node", ("",), "proven")],
)
def test_a_raw_list_may_be_limited_to_a_namespace(
    tmp_path: Path, kind: str, namespaces: tuple[str, ...], expected: str
) -> None:
    items = [{"metadata": {"name": f"x-{i}", "namespace": each}} for i, each in enumerate(namespaces)]
    live = _read(tmp_path, raw={**_BASE, "kind": f"{kind}List", "items": items}, nodes={**_BASE, "kind": "NodeList"})
    assert live.certainty(kind) == expected


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_a_list_without_items_is_not_complete(tmp_path: Path, kind: str) -> None:
    assert _read(tmp_path, pods={**_BASE, "kind": kind}, nodes=_list([node()])).certainty("Pod") is None


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {**_BASE, "kind": "List", "items": items}


def test_named_objects_are_not_the_list_of_pods(tmp_path: Path) -> None:
    live = _read(tmp_path, some=_list([pod(), node()]))
    assert live.certainty("Pod") is None
    assert [each.why for each in live.not_looked] == ["only a part of the list is in the dump"]
    assert _read(tmp_path, some=_list([pod(), pod("b"), node()])).certainty("Pod") == "likely"


def test_pods_of_one_namespace_are_not_the_list_of_a_cluster_with_pods_in_another(tmp_path: Path) -> None:
    plugin = {**_owner("DaemonSet", "plugin", None), "status": {"currentNumberScheduled": 2}}
    plugin["metadata"] = {**plugin["metadata"], "namespace": "kube-system"}
    dump = _write(tmp_path, pods=[pod(status=_RUNNING)], daemonsets=[plugin], nodes=[node()])
    done = Done("doctor", dump)
    assert _first(done).startswith("The dump doesn't have the list of pods")
    assert "DaemonSet kube-system/plugin has 2 pods, and no pod of its namespace is in the dump" in _text(done)


def _text(done: Done) -> str:
    return " ".join(done.out.split())


@pytest.mark.parametrize("status", [{"replicas": 1}, {}])
def test_an_owner_whose_pods_are_not_in_the_dump_does_not_have_too_few(tmp_path: Path, status: dict[str, Any]) -> None:
    owner = {**_owner("Deployment", "serve", None), "status": status}
    done = Done("doctor", _write(tmp_path, deployments=[owner], nodes=[node()]))
    assert _first(done).startswith("The dump doesn't have the list of pods")
    owner["status"] = {"conditions": []}
    done = Done("doctor", _write(tmp_path, deployments=[owner], nodes=[node()]))
    assert _first(done).startswith("Deployment default/serve has too few pods")


def test_a_job_starts_no_more_pods_than_it_completes() -> None:
    job = _owner("Job", "train", None)
    job["spec"] |= {"parallelism": 4, "completions": 1}
    own = pod("train-1", status=_RUNNING, metadata={"ownerReferences": _references(("Job", "train"))})
    live = cluster("karpenter", job, own)
    assert not live.targets()


def test_an_owner_without_pods_is_not_counted_as_a_pod(tmp_path: Path) -> None:
    owner = _owner("ReplicaSet", "serve", None)
    done = Done("doctor", _write(tmp_path, **{"pods": [pod("a")], "replicasets.apps": [owner]}))
    assert _first(done) == (
        "1 GPU pod doesn't run and 1 owner of GPU pods has too few; no cause is found for 1 pod and 1 owner"
    )


def test_a_pod_on_a_silent_node_does_not_run() -> None:
    silent = {**_RUNNING, "conditions": [{"type": "Ready", "status": "False"}]}
    assert [each.title for each in cluster("karpenter", pod(node=NEW_NODE, status=silent)).targets()] == [
        "Pod default/train"
    ]


@pytest.mark.parametrize(("phase", "expected"), [("Running", []), ("Pending", ["Pod default/a", "Pod default/b"])])
def test_a_failed_pod_that_is_replaced_is_no_fault(phase: str, expected: list[str]) -> None:
    owners = {"ownerReferences": _references(("ReplicaSet", "new"))}
    failed = pod("a", metadata=owners, status={"phase": "Failed"})
    other = pod("b", metadata=owners, status={**_RUNNING, "phase": phase})
    live = cluster("karpenter", _owner("ReplicaSet", "new", None), failed, other)
    live.objects("ReplicaSet")[-1].content["spec"]["replicas"] = 1
    assert [each.title for each in live.targets()] == expected


def test_no_gpu_is_idle_without_the_list_of_pods(tmp_path: Path) -> None:
    room = {"nvidia.com/gpu": "1"}
    nodes = [node(capacity=room, allocatable=room)]
    assert [each.idle for each in unused_gpus(_read(tmp_path, nodes=_list(nodes), pods=_list([])))] == [1]
    (tmp_path / "pods.json").unlink()
    assert not list(unused_gpus(_read(tmp_path, nodes=_list(nodes))))


def test_a_fix_is_not_tried_on_nodes_whose_pods_are_not_in_the_dump() -> None:
    room = {"nvidia.com/gpu": "1"}
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    live = cluster("karpenter", pod(), node(capacity=room, allocatable=room, spec={"taints": [taint]}))
    target = find_target(live, "train", None)
    change = tolerating(target, live.taints(live.object("Node", NEW_NODE)))  # type: ignore[arg-type]
    assert NEW_NODE in tried(live, target, change)
    live.dump.complete.discard("Pod")
    live.dump.listed.discard("Pod")
    assert NEW_NODE not in tried(live, target, change)


def test_a_command_for_an_object_without_a_namespace_names_none() -> None:
    live = cluster("karpenter", node(labels={"namespace": "x"}))
    found = live.object("Node", NEW_NODE)
    assert found is not None
    assert patch_command(found, {}) == f"kubectl patch node {NEW_NODE} -p '{{}}'"


def test_a_log_with_another_name_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("CUDA out of memory")
    done = Done("doctor", _write(tmp_path, pods=[pod()]))
    assert "must have the name NAMESPACE_POD_CONTAINER.log, got train.log" in _text(done)


def test_an_error_that_is_no_text_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "nodes.err").write_bytes(b"\xff\xfe\x00")
    done = Done("doctor", _write(tmp_path, pods=[pod()]))
    assert done.code in (0, 1)
    assert "nodes.err" in done.out


def test_a_damaged_record_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "case.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("time.txt", b"\xff" * 10)
        written.writestr("pods.json", json.dumps(_list([pod()])))
    assert Done("doctor", str(file)).code in (0, 1)
    content = bytearray(file.read_bytes())
    start = content.index(b"pods.json") + len("pods.json")
    content[start : start + 20] = b"\xff" * 20
    file.write_bytes(content)
    done = Done("doctor", str(file))
    assert done.code == 2
    assert "must be a file that --record wrote" in done.err


def test_a_part_of_the_access_entries_is_no_evidence(tmp_path: Path) -> None:
    live = _read(tmp_path, nodes=_list([node()]), entries={"accessEntries": ["a"], "nextToken": "x"})
    assert "accessEntries" not in live.dump.aws
    assert [each.what for each in live.dump.refused] == ["aws eks list-access-entries"]


def test_a_record_of_one_namespace_proves_nothing_about_another() -> None:
    live = cluster("karpenter")
    live.dump.namespace = "default"
    assert live.certainty("PersistentVolumeClaim") == "proven"
    assert live.certainty("PersistentVolumeClaim", "default") == "proven"
    assert live.certainty("PersistentVolumeClaim", "team") is None
    assert live.certainty("Pod", "team") == "proven"
    live.targets()
    assert "the dump is limited to namespace default" in {each.why for each in live.not_looked}


def test_the_cause_of_a_controllers_pod_follows_that_of_the_pod_in_question() -> None:
    """Karpenter's pod waits for a cordoned node, so Karpenter launches no node."""
    failed = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": failed}
    status = {"phase": "Pending", "conditions": [waits]}
    live = cluster("karpenter", pod(status=status))
    for each in live.objects("Pod"):
        if each.name.startswith("karpenter"):
            each.content["spec"].pop("nodeName")
            cast("dict[str, Any]", each.content)["status"] = status
    live.nodes[0].content["spec"]["unschedulable"] = True
    found = diagnose(live, find_target(live, "train", None)).ranking.roots
    assert [each.id for each in found[:2]] == ["K1", "S3"]
    assert found[1].command == f"kubectl uncordon {live.nodes[0].name}"


def _info_dump(folder: Path, pods: dict[str, list[dict[str, Any]]]) -> str:
    """Write what 'kubectl cluster-info dump --output-directory' writes, for some namespaces."""
    (folder / "nodes.json").write_text(json.dumps({**_BASE, "kind": "NodeList", "items": [node()]}))
    for namespace, items in pods.items():
        (folder / namespace).mkdir()
        (folder / namespace / "pods.json").write_text(json.dumps({**_BASE, "kind": "PodList", "items": items}))
        empty = {"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": []}
        (folder / namespace / "daemonsets.json").write_text(json.dumps(empty))
    return str(folder)


def test_lists_of_two_namespaces_are_not_the_lists_of_the_cluster(tmp_path: Path) -> None:
    live = Live(read_dump([_info_dump(tmp_path, {"default": [pod()], "kube-system": []})]))
    assert (live.certainty("Node"), live.certainty("Pod"), live.certainty("DaemonSet")) == ("proven", None, "likely")


def test_logs_of_cluster_info_dump_are_read(tmp_path: Path) -> None:
    dump = _info_dump(tmp_path, {"default": [pod()], "kube-system": []})
    (tmp_path / "default" / "train").mkdir()
    each = "==== START logs for container {0} of pod a/b ====\n{1}\n==== END logs for container {0} of pod a/b ====\n"
    each = each.replace("a/b", "default/train")
    text = each.format("init", "fetched") + each.format("main", "CUDA error: out of memory")
    (tmp_path / "default" / "train" / "logs.txt").write_text(text)
    logs = read_dump([dump]).logs
    assert logs == {
        ("default", "train", "init"): "fetched\n",
        ("default", "train", "main"): "CUDA error: out of memory\n",
    }
