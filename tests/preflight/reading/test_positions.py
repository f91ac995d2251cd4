"""Positions: line and column of an object or resource, found again in its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpu_preflight.reading import positions
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Origin, Position
from gpu_preflight.reading.positions import Positions

_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def _find(file: Path, path: str, resource: str | None = None) -> tuple[int, int | None] | None:
    found = Positions().find(Origin(str(file), path, resource))
    return (found.line, found.column) if found else None


def _file(folder: Path, text: str, name: str = "a.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode())
    return file


def test_objects_of_several_documents(tmp_path: Path) -> None:
    file = _file(
        tmp_path, f"# a comment\n{_POD % 'a'}---\n{_POD % 'b'}---\n  {{apiVersion: v1, kind: Node, metadata: {{}}}}\n"
    )

    assert [_find(file, each) for each in ("Pod a", "Pod b", "Node None", "Pod c")] == [(2, 1), (6, 1), (10, 3), None]


def test_every_object_that_is_read_is_found(tmp_path: Path) -> None:
    items = ("kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: PodList\n  items:\n"
             "  - apiVersion: v1\n    kind: Pod\n    metadata: {name: a, namespace: ml}\n")  # fmt: skip
    file = _file(tmp_path, f"{items}---\n- {(_POD % 'b').strip().replace(chr(10), f'{chr(10)}  ')}\n")

    origins = [each.origin for each in read_input([str(file)]).objects]

    assert [each.path for each in origins] == ["Pod ml/a", "Pod b"]
    assert [Positions().find(each) for each in origins] == [Position(str(file), 7, 5), Position(str(file), 11, 3)]


@pytest.mark.parametrize(
    ("before", "line", "column"),
    [
        pytest.param("\ufeff", 1, 1, id="byte order mark"),
        pytest.param("'ü \u2028 \x85 😀'\n---\n", 3, 1, id="characters that end a line of YAML only"),
        pytest.param("# a\r\n---\r\n", 3, 1, id="line ends of Windows"),
    ],
)
def test_lines_are_those_of_editors(before: str, line: int, column: int, tmp_path: Path) -> None:
    text = before + (_POD % "a")

    assert _find(_file(tmp_path, text.replace("\n", "\r\n") if "\r" in before else text), "Pod a") == (line, column)


def test_resources_of_templates(tmp_path: Path) -> None:
    text = "Resources:\n  Group:\n    Type: A::B::C\n    Properties: {Role: !GetAtt Role.Arn, Name: !Sub '${X}'}\n"
    template = {"Resources": {"Group": {"Type": "A::B::C", "Properties": {"a": "é 😀 /"}}, "Role": {"Type": "A::B::D"}}}
    tabs = json.dumps(template, indent="\t").replace("/", "\\/")

    assert _find(_file(tmp_path, text), "app/Group", "a/Group") == (2, 3)
    assert _find(_file(tmp_path, tabs, "a.json"), "app/Role", "a/Role") == (9, 3)
    assert _find(_file(tmp_path, json.dumps(template), "b.json"), "app/Group", "a/Group") == (1, 16)


def test_object_in_a_text_of_a_resource_is_where_the_resource_is(tmp_path: Path) -> None:
    manifest = json.dumps([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}])
    resource = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}}
    file = _file(tmp_path, json.dumps({"Resources": {"Applied": resource}}, indent=1), "app.template.json")

    [pod] = read_input([str(file)]).objects

    assert Positions().find(pod.origin) == Position(str(file), 3, 3)


def test_last_of_equal_objects_counts(tmp_path: Path) -> None:
    assert _find(_file(tmp_path, f"{_POD % 'a'}---\n{_POD % 'a'}"), "Pod a") == (5, 1)


def test_parts_of_an_eksctl_config(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: demo, region: us-east-1}\n"
        "addons:\n- name: vpc-cni\nmanagedNodeGroups:\n- instanceType: g6.xlarge\n  name: l4\n"
        "- instanceType: m5.large\n",
    )
    resources = read_input([str(file)]).resources

    found = {key: _find(file, key, key) for key in resources}

    assert found["demo/Cluster"] == (1, 1)
    assert found["demo/addon vpc-cni"] == (5, 3)
    assert found["demo/l4"] == (7, 3)
    assert found["demo/managedNodeGroups[1]"] == (9, 3)
    assert found.get("demo/l4 template", (7, 3)) == (7, 3)
    assert _find(file, "ClusterConfig demo/addons") == (4, 1)


def test_values_that_are_filled_in_later(tmp_path: Path) -> None:
    text = "{{ .Values.x }}: {{ .Values.y }}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Release.Name }}-a}\n"
    flow = "[{{ .Values.x }}, {apiVersion: v1, kind: Pod, metadata: {name: b}}]\n"

    assert _find(_file(tmp_path, text), "Pod {{ .Release.Name }}-a") == (3, 1)
    assert _find(_file(tmp_path, flow), "Pod b") == (1, flow.index("{apiVersion") + 1)


def test_repeated_key_has_its_line(tmp_path: Path) -> None:
    file = _file(tmp_path, f"{_POD % 'a'}spec: {{}}\nspec: {{}}\n")

    [repeated] = read_input([str(file)]).repeated

    assert Positions().find(repeated.origin) == Position(str(file), 5, None)


def test_what_cannot_be_read_again_has_no_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, text in (("broken.yaml", "a: ["), ("latin.yaml", "é"), ("nul.yaml", "a: \0"), ("empty.yaml", "")):
        (tmp_path / name).write_text(text, "latin-1")

    # A rendered chart or kustomization has the path of its folder.
    places = ("gone.yaml", "pipe", ".", "x\0y", "a" * 5000, *(each.name for each in tmp_path.iterdir()))
    assert [_find(tmp_path / each, "Pod a") for each in places] == [None] * len(places)
    assert Positions().find(Origin("<stdin>", "Pod a")) is None


def test_texts_that_are_refused_when_they_are_read_have_no_lines(tmp_path: Path) -> None:
    bomb = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))
    cyclic = "&a\napiVersion: v1\nkind: List\nitems: &i [*a, *i, {apiVersion: v1, kind: Pod, metadata: {name: a}}]\n"
    lists = "\n".join(f"a{n}: &a{n} {{kind: List, items: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 40))

    assert _find(_file(tmp_path, f"a0: &a0 [x]\n{bomb}\n---\n{_POD % 'a'}"), "Pod a") is None
    assert _find(_file(tmp_path, cyclic), "Pod a") is None
    assert _find(_file(tmp_path, f"a0: &a0 x\n{lists}\nkind: List\nitems: [*a39]\n"), "Pod a") is None
    assert _find(_file(tmp_path, "[" * 100_000), "Pod a") is None


def test_larger_files_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _file(tmp_path, _POD % "a")
    monkeypatch.setattr(positions, "MAX_BYTES", file.stat().st_size - 1)

    assert _find(file, "Pod a") is None


_NODE_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: a
  labels: {example.com/team: x, example.com: y}
spec:
  template:
    spec:
      taints:
      - key: b
        effect: NoSuch
"""


@pytest.mark.parametrize(
    ("field", "line", "column"),
    [
        ("apiVersion", 1, 1),
        ("spec.template.spec.taints[0].effect", 11, 9),
        ("spec.template.spec.taints[0]", 10, 9),
        ("spec.template.spec.taints", 9, 7),
        pytest.param("metadata.labels.example.com/team", 5, 12, id="keys with dots"),
        pytest.param("spec.template.spec.taints[0].value.x", 10, 9, id="one that isn't written is its mapping"),
        pytest.param("spec.template.spec.taints[1].effect", 9, 7, id="an item that isn't written is its list"),
        pytest.param("status", 1, 1, id="nothing of it is written"),
    ],
)
def test_fields_of_objects(field: str, line: int, column: int, tmp_path: Path) -> None:
    file = _file(tmp_path, f"# a comment\n---\n{_NODE_POOL}")

    found = Positions().find(Origin(str(file), "NodePool a"), field)

    assert found == Position(str(file), line + 2, column)


def test_fields_of_resources_are_among_their_properties(tmp_path: Path) -> None:
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"ScalingConfig": {"DesiredSize": 1}, "AmiType": "x"}}
    file = _file(tmp_path, json.dumps({"Resources": {"Group": group}}, indent=1), "a.json")
    origin = Origin(str(file), "a/Group", "a/Group")

    found = [Positions().find(origin, each) for each in ("ScalingConfig.DesiredSize", "AmiType", "Type", "")]

    assert [each and each.line for each in found] == [7, 9, 3, 3]


def test_fields_in_a_text_of_a_resource_are_where_the_resource_is(tmp_path: Path) -> None:
    resource = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([{"spec": {}}])}}
    file = _file(tmp_path, json.dumps({"Resources": {"Applied": resource}}, indent=1), "app.template.json")

    assert Positions().find(Origin(str(file), "Pod a", "app/Applied"), "spec.replicas") == Position(str(file), 3, 3)


def test_fields_of_an_aliased_object_end(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: &s {a: [{b: c}]}\nstatus: *s\n"

    found = Positions().find(Origin(str(_file(tmp_path, text)), "Pod a"), "status.a[0].b")

    assert found
    assert (found.line, found.column) == (4, 16)
