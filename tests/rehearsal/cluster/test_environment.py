"""A container gets the variables, arguments, volumes and token that its pod specifies."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.identities import has_token
from gpu_rehearsal.cluster.pod_status import environment, expanded, missing

HELD: dict[str, Object] = {
    "/api/v1/namespaces/apps/configmaps/settings": {"data": {"A": "1", "B": "2"}},
    "/api/v1/namespaces/apps/secrets/keys": {"data": {"TOKEN": "c2VjcmV0"}},
}
POD: Object = {
    "metadata": {"name": "web", "namespace": "apps", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:10Z"},
    "spec": {"nodeName": "node-1", "serviceAccountName": "web", "containers": []},
    "status": {"podIP": "10.0.0.9"},
}


class Held:
    """A server that holds some objects."""

    def find(self, path: str) -> Object | None:
        """Return one."""
        return HELD.get(path)


SERVER = cast("Client", Held())


def variables(*env: Object, **container: Any) -> dict[str, str]:
    return environment(POD, {"name": "main", "env": list(env), **container}, SERVER)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "apps"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-1"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.9"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, ""),
        ({"configMapKeyRef": {"name": "settings", "key": "A"}}, "1"),
        ({"secretKeyRef": {"name": "keys", "key": "TOKEN"}}, "secret"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "500"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "0"}}, str(2**30)),
    ],
)
def test_a_variable_is_taken_from(source: Object, value: str) -> None:
    resources = {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}

    assert variables({"name": "X", "valueFrom": source}, resources=resources) == {"X": value}


def test_a_variable_may_name_those_before_it() -> None:
    assert variables({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(C)-$$(A)"})["B"] == "1-$(C)-$(A)"


def test_all_of_a_config_map_are_variables() -> None:
    assert variables(envFrom=[{"configMapRef": {"name": "settings"}, "prefix": "P_"}]) == {"P_A": "1", "P_B": "2"}


def test_an_optional_source_can_be_absent() -> None:
    source = {"configMapKeyRef": {"name": "none", "key": "A", "optional": True}}

    assert variables({"name": "X", "valueFrom": source}) == {}


@pytest.mark.parametrize(
    "source",
    [
        {"configMapKeyRef": {"name": "none", "key": "A"}},
        {"configMapKeyRef": {"name": "settings", "key": "C"}},
        {"fieldRef": {"fieldPath": "status.hostIP"}},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
    ],
)
def test_refuses_an_absent_source(source: Object) -> None:
    with pytest.raises(LookupError):
        variables({"name": "X", "valueFrom": source})


def test_refuses_an_unknown_kind_of_source() -> None:
    with pytest.raises(ValueError, match="must be a field, a resource, a ConfigMap or a Secret, got fileKeyRef"):
        variables({"name": "X", "valueFrom": {"fileKeyRef": {}}})


def test_arguments_name_variables() -> None:
    assert expanded("--node=$(NODE)", {"NODE": "node-1"}) == "--node=node-1"


@pytest.mark.parametrize(
    ("volume", "lacks"),
    [
        ({"configMap": {"name": "settings"}}, ""),
        ({"configMap": {"name": "late"}}, 'configmap "late" not found'),
        ({"configMap": {"name": "late", "optional": True}}, ""),
        ({"secret": {"secretName": "late"}}, 'secret "late" not found'),
        ({"projected": {"sources": [{"secret": {"name": "late"}}]}}, 'secret "late" not found'),
        ({"emptyDir": {}}, ""),
    ],
)
def test_a_pod_waits_for_the_volumes_that_it_mounts(volume: Object, lacks: str) -> None:
    assert missing(POD | {"spec": {"containers": [], "volumes": [{"name": "v"} | volume]}}, SERVER) == lacks


def test_a_container_has_a_token_where_one_is_mounted() -> None:
    volume = {"name": "api", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    mounted = POD | {"spec": {"volumes": [volume]}}

    assert has_token(mounted, {"volumeMounts": [{"name": "api"}]})
    assert not has_token(mounted, {})
