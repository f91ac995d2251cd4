"""Environment and arguments of a container, with all references in them resolved.

Source: https://kubernetes.io/docs/tasks/inject-data-application/
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.quantities import number

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
# $$ stands for a dollar.
_VARIABLE = re.compile(r"\$\$|\$\(([^()]+)\)")


def environment(pod: Object, container: Object, kubelet: Client) -> dict[str, str]:
    """Return the variables of a container.

    Args:
        pod: Its pod, with the addresses of its status.
        container: The container.
        kubelet: Its node at the API server.

    Raises:
        LookupError: A variable refers to what is not there.
        ValueError: It is taken from something that is not known here.
    """
    found: dict[str, str] = {}
    for each in container.get("envFrom", ()):
        found |= _all_of(each, pod, kubelet)
    for each in container.get("env", ()):
        value = _value(each, pod, container, kubelet, found)
        if value is not None:
            found[each["name"]] = value
    return found


def expanded(written: str, variables: Mapping[str, str]) -> str:
    """Return text with the variables that it names; one that is not known stays as it is written."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _VARIABLE.sub(value, written)


def _value(said: Object, pod: Object, container: Object, kubelet: Client, before: Mapping[str, str]) -> str | None:
    taken = said.get("valueFrom")
    if not taken:
        return expanded(said.get("value", ""), before)
    [(kind, source)] = taken.items()
    if kind == "fieldRef":
        return _field(pod, source["fieldPath"])
    if kind == "resourceFieldRef":
        return _resource(pod, container, source)
    if kind in ("configMapKeyRef", "secretKeyRef"):
        plural = "configmaps" if kind == "configMapKeyRef" else "secrets"
        return _of_key(_data(pod, plural, source, kubelet), source)
    raise ValueError(f"{said['name']}: valueFrom must be a field, a resource, a ConfigMap or a Secret, got {kind}")


def _of_key(data: Mapping[str, str], source: Object) -> str | None:
    if source["key"] not in data:
        _absent(source, f"key {source['key']} in {source['name']}")
    return data.get(source["key"])


def _field(pod: Object, path: str) -> str:
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    found: object = pod
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        raise LookupError(f"the pod has no {path}")
    return str(found)


def _resource(pod: Object, container: Object, source: Object) -> str:
    every = {each["name"]: each for each in pod["spec"]["containers"]}
    of = every[source["containerName"]] if source.get("containerName") else container
    part, _, name = source["resource"].partition(".")
    if name not in of.get("resources", {}).get(part, {}):
        raise LookupError(f"container {of['name']} has no {source['resource']}; what its node has instead is not known")
    divisor = number(source.get("divisor") or 1) or 1
    return str(math.ceil(number(of["resources"][part][name]) / divisor))


def _all_of(said: Object, pod: Object, kubelet: Client) -> dict[str, str]:
    plural, source = ("configmaps", said["configMapRef"]) if "configMapRef" in said else ("secrets", said["secretRef"])
    return {said.get("prefix", "") + key: value for key, value in _data(pod, plural, source, kubelet).items()}


def _data(pod: Object, plural: str, source: Object, kubelet: Client) -> dict[str, str]:
    found = kubelet.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{plural}/{source['name']}")
    if found is None:
        _absent(source, source["name"])
        return {}
    data = found.get("data") or {}
    return data if plural == "configmaps" else {key: base64.b64decode(each).decode() for key, each in data.items()}


def _absent(source: Object, what: str) -> None:
    if not source.get("optional"):
        raise LookupError(f"there is no {what}")
