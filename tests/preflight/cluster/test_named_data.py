"""Which ConfigMaps and Secrets a pod does not start without, and which keys those have."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.objects import NamedData, keys_by_name, named_data
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import read_pod
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown


def container(**says: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main"} | says]}


def env(**source: Any) -> dict[str, Any]:
    return container(env=[{"name": "A", "valueFrom": source}])


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        (env(secretKeyRef={"name": "s", "key": "k"}), NamedData("Secret", "s", ("k",))),
        (env(configMapKeyRef={"name": "c", "key": "k"}), NamedData("ConfigMap", "c", ("k",))),
        (env(secretKeyRef={"name": "s", "key": Unknown("k")}), NamedData("Secret", "s")),
        (container(envFrom=[{"prefix": "P_", "secretRef": {"name": "s"}}]), NamedData("Secret", "s")),
        (container(envFrom=[{"configMapRef": {"name": "c", "optional": False}}]), NamedData("ConfigMap", "c")),
        ({"initContainers": container(envFrom=[{"secretRef": {"name": "s"}}])["containers"]}, NamedData("Secret", "s")),
        ({"volumes": [{"secret": {"secretName": "s"}}]}, NamedData("Secret", "s")),
        ({"volumes": [{"configMap": {"name": "c", "items": [{"key": "k"}]}}]}, NamedData("ConfigMap", "c", ("k",))),
        ({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}, NamedData("Secret", "s")),
    ],
)
def test_what_a_pod_does_not_start_without(pod: dict[str, Any], wanted: NamedData) -> None:
    assert list(named_data(read_pod(pod))) == [wanted]


@pytest.mark.parametrize(
    "pod",
    [
        {"volumes": [{"emptyDir": {}}]},
        {"volumes": [{"configMap": {"name": "c", "optional": True}}]},
        {"volumes": [{"configMap": {"name": "c", "optional": Unknown("o")}}]},
        {"volumes": [{"configMap": {"name": "kube-root-ca.crt"}}]},
        {"volumes": [{"secret": {"secretName": Unknown("s")}}]},
        {"volumes": [{"secret": {"secretName": "s-${STAGE}"}}]},
        {"imagePullSecrets": [{"name": "ngc"}]},
        env(fieldRef={"fieldPath": "metadata.name"}),
    ],
)
def test_what_a_pod_does_without_or_is_not_known_is_left_out(pod: dict[str, Any]) -> None:
    assert list(named_data(read_pod(pod))) == []


def made(kind: str, name: str = "a", namespace: str = "ml", **says: Any) -> Object:
    content = {"kind": kind, "metadata": {"name": name, "namespace": namespace}} | says
    return Object(content, Origin("file.yaml", f"{kind} {namespace}/{name}"))


def keys(*objects: Object, kind: Any = "Secret") -> dict[str, frozenset[str] | None]:
    return keys_by_name(kind, "ml", Cluster("demo", objects=objects))


def test_a_secret_has_the_keys_of_all_its_parts() -> None:
    assert keys(made("Secret", data={"a": ""}, stringData={"b": ""})) == {"a": frozenset("ab")}


def test_a_base_and_what_is_laid_over_it_are_one() -> None:
    assert keys(made("Secret", data={"a": ""}), made("Secret", data={"b": ""})) == {"a": frozenset("ab")}


@pytest.mark.parametrize("data", [{}, None, Unknown("data")])
def test_what_is_filled_in_later_has_any_key(data: Any) -> None:
    assert keys(made("Secret", data=data)) == {"a": None}


def test_another_namespace_has_secrets_of_its_own() -> None:
    assert keys(made("Secret", namespace="other", data={"a": ""})) == {}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ExternalSecret", {"target": {"name": "b"}}),
        ("SealedSecret", {"template": {"metadata": {"name": "b"}}}),
        ("Certificate", {"secretName": "b"}),
    ],
)
def test_a_controller_makes_a_secret(kind: str, spec: dict[str, Any]) -> None:
    assert keys(made(kind, spec=spec)) == {"b": None}
    assert keys(made(kind, spec=spec), kind="ConfigMap") == {}


def test_a_secret_that_names_no_other_target_is_called_as_its_maker() -> None:
    assert keys(made("ExternalSecret", spec={})) == {"a": None}
