"""Which namespaces a queue takes: known by their labels, or by their name alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.objects import is_selected
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

NAME = "kubernetes.io/metadata.name"


def with_namespace(**labels: Any) -> Cluster:
    metadata = {"name": "team-a", "labels": labels}
    return Cluster(
        "demo", objects=(Object({"kind": "Namespace", "metadata": metadata}, Origin("a.yaml", "Namespace team-a")),)
    )


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        ({}, Answer.YES),
        ({"matchLabels": {"quota": "gpu"}}, Answer.UNKNOWN),
        ({"matchExpressions": [{"key": "quota", "operator": "DoesNotExist"}]}, Answer.UNKNOWN),
        ({"matchLabels": {NAME: "team-a"}}, Answer.YES),
        ({"matchLabels": {NAME: "team-b"}}, Answer.NO),
        ({"matchLabels": {NAME: "${TEAM}"}}, Answer.UNKNOWN),
        ({"matchLabels": {NAME: "team-b", "quota": "gpu"}}, Answer.NO),
        (Unknown("${Selector}"), Answer.UNKNOWN),
    ],
)
def test_of_a_namespace_that_is_not_in_the_input_its_name_is_known(selector: Any, answer: Answer) -> None:
    assert is_selected(selector, "team-a", Cluster("demo")) is answer


@pytest.mark.parametrize(("quota", "answer"), [("gpu", Answer.YES), ("cpu", Answer.NO), ("${Q}", Answer.UNKNOWN)])
def test_of_one_that_is_there_its_labels_are_known(quota: str, answer: Answer) -> None:
    assert is_selected({"matchLabels": {"quota": "gpu"}}, "team-a", with_namespace(quota=quota)) is answer


def test_one_that_is_there_lacks_what_it_does_not_have() -> None:
    assert is_selected({"matchLabels": {"quota": "gpu"}}, "team-a", with_namespace()) is Answer.NO
