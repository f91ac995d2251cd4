"""Values known only at deployment are neither rejected for certain nor accepted for certain."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.labels import ENFORCED_LEVEL
from gpu_preflight.admission.pod_security import below_level
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import read_pod
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

LATER = Unknown("${Later}")
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def answers(level: str, context: Any, **spec: Any) -> set[Answer]:
    """The findings of a level about a pod of one container."""
    labels = {"name": "ml", "labels": {ENFORCED_LEVEL: level}}
    content = {"apiVersion": "v1", "kind": "Namespace", "metadata": labels}
    cluster = Cluster("demo", objects=(Object(content, Origin("file", "Namespace ml")),))
    pod = read_pod({"containers": [{"name": "main", "securityContext": context}], **spec})
    return {each.answer for each in below_level(pod, "ml", cluster)}


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize(
    ("context", "spec"),
    [
        (LATER, {}),
        ("${SEC}", {}),
        ({**HARDENED, "privileged": LATER}, {}),
        ({**HARDENED, "capabilities": {"drop": ["ALL"], "add": LATER}}, {}),
        (HARDENED, {"hostNetwork": LATER}),
        (HARDENED, {"volumes": LATER}),
        (HARDENED, {"securityContext": LATER}),
    ],
)
def test_unknown_values_are_not_checked(level: str, context: Any, spec: dict[str, Any]) -> None:
    assert answers(level, context, **spec) == {Answer.UNKNOWN}


def test_known_values_next_to_it_are_checked() -> None:
    assert answers("baseline", {"privileged": True, "procMount": LATER}) == {Answer.NO, Answer.UNKNOWN}


def test_a_container_goes_before_its_pod() -> None:
    assert answers("restricted", {**HARDENED, "runAsNonRoot": False}, securityContext={"runAsNonRoot": True}) == {
        Answer.NO
    }
    assert answers("restricted", HARDENED) == set()
