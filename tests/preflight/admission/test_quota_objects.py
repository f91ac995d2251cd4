"""Quotas of storage claims and of objects, and the unknown values in them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.quotas import object_quota_violations
from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object, Origin

Content = dict[str, Any]


def written(kind: str, name: str, spec: Content, group: str = "apps/") -> Object:
    metadata = {"name": name, "namespace": "ml"}
    content = {"apiVersion": f"{group}v1", "kind": kind, "metadata": metadata, "spec": spec}
    return Object(content, Origin("file", f"{kind} ml/{name}"))


def quota(**hard: Any) -> Object:
    return written("ResourceQuota", "ml", {"hard": hard}, "")


def claim(size: str, **spec: Any) -> Content:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}


def replicas(name: str, number: Any, *templates: Content) -> Object:
    pod = {"containers": [{"name": "main", "image": "x:1"}]}
    listed = [{"metadata": {"name": f"data{place}"}, "spec": each} for place, each in enumerate(templates)]
    spec = {"replicas": number, "template": {"spec": pod}, "volumeClaimTemplates": listed}
    return written("StatefulSet", name, spec)


def using(name: str, of: str) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": of}}
    pod = {"containers": [{"name": "main", "image": "x:1"}], "volumes": [volume]}
    return written("Deployment", name, {"template": {"spec": pod}})


def answers(*objects: Object) -> dict[str, list[Answer]]:
    """The result for each workload that isn't accepted for certain."""
    cluster = Cluster("demo", objects=objects, workloads=tuple(workloads(objects)))
    found = {
        each.name.rpartition("/")[2]: [one.answer for one in object_quota_violations(each, cluster)]
        for each in cluster.workloads
    }
    return {name: each for name, each in found.items() if each}


GP3 = "gp3.storageclass.storage.k8s.io/"


@pytest.mark.parametrize(
    ("hard", "refused"),
    [
        ({"persistentvolumeclaims": "3"}, False),
        ({"persistentvolumeclaims": "2"}, True),
        ({"count/persistentvolumeclaims": "2"}, True),
        ({"requests.storage": "300Gi"}, False),
        ({"requests.storage": "299Gi"}, True),
        ({f"{GP3}requests.storage": "299Gi"}, True),
        ({f"{GP3}persistentvolumeclaims": "2"}, True),
        ({"io2.storageclass.storage.k8s.io/requests.storage": "1Gi"}, False),
        ({"count/statefulsets.apps": "1"}, False),
        ({"count/statefulsets.apps": "0"}, True),
        ({"count/jobs.batch": "0"}, False),
        ({"requests.storage": "${SIZE}"}, False),
    ],
)
def test_a_stateful_set_claims_storage_for_each_pod(hard: Content, refused: bool) -> None:
    found = answers(quota(**hard), replicas("a", 3, claim("100Gi", storageClassName="gp3")))

    assert found == ({"a": [Answer.NO]} if refused else {})


def test_those_before_it_take_theirs() -> None:
    found = answers(quota(persistentvolumeclaims="3"), *(replicas(name, 2, claim("1Gi")) for name in "abc"))

    assert found == {"b": [Answer.NO], "c": [Answer.NO]}


def test_how_many_pods_there_are_may_not_be_known() -> None:
    assert answers(quota(persistentvolumeclaims="0"), replicas("a", "${N}", claim("1Gi"))) == {"a": [Answer.UNKNOWN]}


def test_a_claim_larger_than_the_quota_is_never_made() -> None:
    data = written("PersistentVolumeClaim", "data", claim("200Gi"), "")

    assert answers(quota(**{"requests.storage": "100Gi"}), data, using("a", "data")) == {"a": [Answer.NO]}
    assert answers(quota(**{"requests.storage": "200Gi"}), data, using("a", "data")) == {}


def test_of_several_claims_it_is_not_known_which_one_is_refused() -> None:
    both = [written("PersistentVolumeClaim", name, claim("60Gi"), "") for name in ("one", "two")]

    assert answers(quota(**{"requests.storage": "100Gi"}), *both, using("a", "one")) == {"a": [Answer.UNKNOWN]}


def test_a_claim_that_a_stateful_set_finds_made_is_not_counted_twice() -> None:
    made = written("PersistentVolumeClaim", "data0-a-0", claim("1Gi"), "")

    assert answers(quota(persistentvolumeclaims="1"), made, replicas("a", 1, claim("1Gi"))) == {}


def test_only_so_many_objects_of_a_kind_are_accepted() -> None:
    assert answers(quota(**{"count/statefulsets.apps": "1"}), replicas("a", 1), replicas("b", 1)) == {"b": [Answer.NO]}
