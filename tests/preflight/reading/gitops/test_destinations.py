"""Clusters that Applications of Argo CD install into, and the namespaces that Argo CD makes there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import Input
from tests.preflight.reading.gitops.repository import application, deployment, given, told

ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted"}
CREATES = ["CreateNamespace=true"]


def of_chart(**spec: Any) -> dict[str, Any]:
    """An Application of an unknown chart."""
    return application({"chart": "app", "targetRevision": "1.0.0"}, **spec)


def made(found: Input) -> list[tuple[str, Any]]:
    return [(each.name, dict(each.labels)) for each in found.objects if each.kind == "Namespace"]


def with_policy(folder: Path, *others: dict[str, Any], **policy: Any) -> Input:
    owner = of_chart(destination={"namespace": "ml"}, syncPolicy=policy)
    return given(folder, argo=[owner, *others])


def test_argo_cd_labels_the_namespace_that_it_makes(tmp_path: Path) -> None:
    found = with_policy(tmp_path, syncOptions=CREATES, managedNamespaceMetadata={"labels": ENFORCED})

    assert made(found) == [("ml", ENFORCED)]


def test_it_labels_none_that_it_does_not_make(tmp_path: Path) -> None:
    assert made(with_policy(tmp_path, managedNamespaceMetadata={"labels": ENFORCED})) == []


def test_a_namespace_that_is_written_has_its_own_labels(tmp_path: Path) -> None:
    written = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"a": "b"}}}

    found = with_policy(tmp_path, written, syncOptions=CREATES, managedNamespaceMetadata={"labels": ENFORCED})

    assert made(found) == [("ml", {"a": "b"})]


def test_its_level_refuses_pods(tmp_path: Path) -> None:
    pods = deployment()
    pods["metadata"]["namespace"] = "ml"

    report = check(with_policy(tmp_path, pods, syncOptions=CREATES, managedNamespaceMetadata={"labels": ENFORCED}))

    assert "GPU372" in {each.rule.id for each in report.findings}


@pytest.mark.parametrize(
    ("first", "second", "several"),
    [
        ({"name": "prod"}, {"name": "prod"}, False),
        ({"name": "prod"}, {"name": "test"}, True),
        ({"server": "https://a"}, {"server": "https://b"}, True),
        ({"name": "in-cluster"}, {"server": "https://kubernetes.default.svc"}, False),
        ({"name": "prod"}, {"name": "{{name}}"}, False),
        ({"name": "prod"}, {}, False),
    ],
)
def test_several_clusters_are_reported(tmp_path: Path, first: Any, second: Any, several: bool) -> None:
    found = given(tmp_path, argo=[of_chart(destination=first), of_chart(destination=second)])

    assert any("all are checked as one cluster" in each for each in told(found)) is several


def test_an_application_of_applications_names_no_cluster_of_theirs(tmp_path: Path) -> None:
    root = application({"path": "apps"}, destination={"name": "in-cluster"})

    found = given(tmp_path, root=[root], apps__one=[of_chart(destination={"name": "prod"})])

    assert not any("all are checked as one cluster" in each for each in told(found))
