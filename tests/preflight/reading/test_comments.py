"""A comment belongs to the object or resource around it, or on the next line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.positions import MAX_BYTES, comments
from tests.preflight.rule_cases import FIXTURES

TEXT = """\
# gpu-constructs: ignore GPU001 outside
Resources:
  # gpu-constructs: ignore GPU002 above
  # another comment
  Nodes:
    Type: AWS::EKS::Nodegroup  # gpu-constructs: ignore GPU003 inside
  Other: {Type: AWS::SNS::Topic}
Outputs:
  # gpu-constructs: ignore GPU004 outside
  A: {Value: b}
---
# gpu-constructs: ignore GPU005 above
apiVersion: v1
kind: Pod
metadata: {name: small}
---
apiVersion: v1
kind: List
items:
# gpu-constructs: ignore GPU006 above
- apiVersion: v1
  kind: Pod
  metadata: {name: one}
- apiVersion: v1
  kind: Pod  # gpu-constructs: ignore GPU007 inside
  metadata: {name: two}
  # gpu-constructs: ignore GPU008 at the end
---
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: demo, region: us-east-1}
managedNodeGroups:
- name: cpu
  # gpu-constructs: ignore GPU009 inside
  instanceType: m7i.large
- name: gpu
"""


def test_a_comment_belongs_to_what_is_around_it_or_next() -> None:
    found = {each.text.split()[1]: each.names for each in comments("a.yaml", TEXT)}

    assert found == {
        "GPU001": (),
        "GPU002": ("/Nodes",),
        "GPU003": ("/Nodes",),
        "GPU004": (),
        "GPU005": ("Pod small",),
        "GPU006": ("Pod one",),
        "GPU007": ("Pod two",),
        "GPU008": ("Pod two",),
        "GPU009": ("ClusterConfig demo/cpu",),
    }


def test_the_line_is_that_of_the_file() -> None:
    assert [each.line for each in comments("a.yaml", TEXT)][:3] == [1, 3, 6]


@pytest.mark.parametrize(
    ("comment", "accepted", "mistakes"),
    [
        ("ignore GPU001 no pods yet", "no pods yet", []),
        ("ignore GPU048,GPU001 no pods yet", "no pods yet", []),
        ("ignore GPU001", None, ["comment: GPU001 must have a reason"]),
        ("ignore GPU0O1 x", None, ["comment: id must be a rule's id, got 'GPU0O1'; did you mean 'GPU001'?"]),
        ("ignroe GPU001 x", None, ["comment must be 'gpu-constructs: ignore RULE reason', got 'ignroe GPU001 x'"]),
    ],
)
def test_a_comment_accepts_with_a_reason(
    comment: str, accepted: str | None, mistakes: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "app.yaml"
    text = (FIXTURES / "GPU001" / "fails_cpu_image_on_an_l4.yaml").read_text()
    file.write_text(text.replace("AmiType:", f"# gpu-constructs: {comment}\n      AmiType:"))

    report = check(read_input([str(file)]))

    [found] = [each for each in report.findings if each.rule.id == "GPU001"]
    assert (found.acknowledged, found.accepted_by) == (accepted, "comment" if accepted else None)
    assert [wanted in line for wanted, line in zip(mistakes, report.mistaken, strict=True)] == [True] * len(mistakes)
    assert all(f"{file}: line " in each for each in report.mistaken)


def test_a_comment_that_accepts_nothing_is_unused(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("# gpu-constructs: ignore GPU001 old\napiVersion: v1\nkind: Pod\nmetadata: {name: small}\n")

    [unused] = check(read_input([str(file)])).unused

    assert (unused.id, unused.path, unused.file) == ("GPU001", "line 1", str(file))


def test_a_comment_in_a_file_above_2_mib_belongs_to_nothing() -> None:
    text = "apiVersion: v1\nkind: Pod  # gpu-constructs: ignore GPU001 inside\nmetadata: {name: one}\n"

    assert [bool(each.names) for each in comments("a.yaml", text)] == [True]
    assert [bool(each.names) for each in comments("a.yaml", text + "#" * MAX_BYTES)] == [False]


def test_a_comment_after_thousands_of_documents_belongs_to_the_last() -> None:
    text = "".join(f"---\nkind: Pod\napiVersion: v1\nmetadata: {{name: p{each}}}\n" for each in range(3000))
    [last] = comments("a.yaml", f"{text}# gpu-constructs: ignore GPU001 x\n---\nkind: Pod\n")

    assert last.names == ("Pod p2999",)
