"""Files, folders and assemblies; acknowledgements; two inputs compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.preflight.cluster.clusters import MAX_CLUSTERS, clusters
from gpu_constructs.preflight.judging.check import Report, check
from gpu_constructs.preflight.judging.review import Review, review
from gpu_constructs.preflight.reading.documents import UnusableInput
from gpu_constructs.preflight.reading.inputs import Input, read_input
from tests.preflight.readers import clusters_of

# Its image has no driver, which GPU001 says.
BAD: dict[str, Any] = {
    "ClusterName": {"Ref": "Cluster"},
    "InstanceTypes": ["g6.xlarge"],
    "AmiType": "AL2023_x86_64_STANDARD",
    "ScalingConfig": {"MinSize": 0, "MaxSize": 2},
}
CLUSTER = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}


def template(group: Any = None, **parts: Any) -> dict[str, Any]:
    nodes = {"Type": "AWS::EKS::Nodegroup", "Properties": BAD if group is None else group, **parts}
    return {"Resources": {"Cluster": CLUSTER, "Nodes": nodes}}


def given(folder: Path, content: Any, name: str = "stack.template.json") -> Input:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return read_input([str(folder)])


def reasons(report: Report) -> set[str | None]:
    return {each.acknowledged for each in report.findings if each.rule.id == "GPU001"}


def test_a_folder_is_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / ".hidden.yaml").write_text("{")

    assert [each.name for each in given(tmp_path, template()).objects] == ["a"]


def test_lists_are_their_items(tmp_path: Path) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("a", "b")]

    found = given(tmp_path, {"apiVersion": "v1", "kind": "List", "items": pods}, "pods.json")

    assert [each.name for each in found.objects] == ["a", "b"]


@pytest.mark.parametrize("content", ["- 1\n", "a: b\n", "text\n", "kind: Pod\n"])
def test_refuses_what_holds_nothing_to_judge(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)

    with pytest.raises(UnusableInput, match="must be a CloudFormation template or Kubernetes objects"):
        read_input([str(file)])


def test_refuses_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="got none"):
        read_input([str(tmp_path)])


def test_a_parameter_may_be_given(tmp_path: Path) -> None:
    content = {**template({**BAD, "InstanceTypes": [{"Ref": "Type"}]}), "Parameters": {"Type": {"Type": "String"}}}
    (tmp_path / "a.json").write_text(json.dumps(content))

    [found] = clusters(read_input([str(tmp_path / "a.json")], parameters={"Type": "g5.xlarge"}))

    assert found.pools[0].instance_types == ("g5.xlarge",)


def test_each_cluster_has_its_own_pools(tmp_path: Path) -> None:
    resources = {
        **template()["Resources"],
        "Other": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "other"}},
        "More": {"Type": "AWS::EKS::Nodegroup", "Properties": {**BAD, "ClusterName": "other"}},
        "Bare": {"Type": "AWS::EKS::Nodegroup", "Properties": {**BAD, "ClusterName": "elsewhere"}},
    }

    found = clusters_of(tmp_path, {"Resources": resources})

    assert [(each.name, len(each.pools), each.whole) for each in found] == [
        ("demo", 1, True),
        ("other", 1, True),
        ("elsewhere", 1, False),
    ]


@pytest.mark.parametrize("more", [0, 1])
def test_clusters_are_bounded(tmp_path: Path, more: int) -> None:
    resources = {
        f"C{number}": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": f"c{number}"}}
        for number in range(MAX_CLUSTERS + more)
    }
    if not more:
        assert len(clusters_of(tmp_path, {"Resources": resources})) == MAX_CLUSTERS
        return
    with pytest.raises(UnusableInput, match="at most 500 clusters, got 501"):
        clusters_of(tmp_path, {"Resources": resources})


def test_a_finding_stands_until_it_is_accepted(tmp_path: Path) -> None:
    report = check(given(tmp_path, template()))

    assert reasons(report) == {None}
    assert report.fails


def test_a_file_accepts_by_path(tmp_path: Path) -> None:
    lines = [{"id": "GPU001", "reason": " known ", "path": "stack/N*"}]
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": lines}))

    assert reasons(check(given(tmp_path, template()))) == {"known"}


def test_a_file_accepts_nothing_of_another_path(tmp_path: Path) -> None:
    lines = [{"id": "GPU001", "reason": "known", "path": "other/*"}]
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": lines}))

    assert reasons(check(given(tmp_path, template()))) == {None}


def test_a_template_accepts_in_its_metadata(tmp_path: Path) -> None:
    metadata = {"gpu-constructs": {"acknowledge": {"GPU001": "known"}}}

    assert reasons(check(given(tmp_path, template(Metadata=metadata)))) == {"known"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "GPU0001", "reason": "x"}, "must be a rule's id, got 'GPU0001'; did you mean"),
        ({"id": None, "reason": "x"}, "must be a rule's id"),
        ({"id": "GPU001"}, "GPU001 must have a reason"),
        ({"id": "GPU001", "reason": "  "}, "GPU001 must have a reason"),
        ("GPU001", "must be a rule's id"),
    ],
)
def test_refuses_a_line_that_accepts_nothing(tmp_path: Path, line: Any, message: str) -> None:
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": [line]}))

    with pytest.raises(UnusableInput, match=message):
        check(given(tmp_path, template()))


def compared(folder: Path, old: Any, new: Any) -> Review:
    return review(given(folder / "old", old), given(folder / "new", new))


def test_two_equal_inputs_differ_in_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template())

    assert (found.pools, found.moves, found.fates, found.new, found.fixed) == ((), (), (), (), ())
    assert found.before == found.after
    assert found.standing


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({"AmiType": "AL2023_x86_64_NVIDIA"}, "replaced"),
        ({"InstanceTypes": ["g6.2xlarge"]}, "replaced"),
        ({"Labels": {"a": "b"}}, "changed"),
        ({"ScalingConfig": {"MinSize": 0, "MaxSize": 3}}, "changed"),
    ],
)
def test_a_changed_pool(tmp_path: Path, changes: Any, change: str) -> None:
    found = compared(tmp_path, template(), template({**BAD, **changes}))

    assert [each.change for each in found.pools] == [change]


def test_a_mended_pool_fixes_its_finding(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "AmiType": "AL2023_x86_64_NVIDIA"}))

    assert "GPU001" in {each.rule.id for each in found.fixed}
    assert "GPU001" not in {each.rule.id for each in (*found.new, *found.standing)}


def test_the_ceiling_follows_the_maximum(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    assert (found.before.gpus, found.after.gpus) == (2, 5)
    assert found.after.usd_per_hour == pytest.approx(found.before.usd_per_hour * 2.5, abs=0.01)
