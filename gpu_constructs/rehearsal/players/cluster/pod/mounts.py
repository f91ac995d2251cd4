"""What a pod refers to, without which its containers do not start."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from gpu_constructs.rehearsal.players.cluster.client import Client, Object


def missing(pod: Object, kubelet: Client) -> str:
    """Return what a pod waits for, in the kubelet's words; empty where all is there.

    Args:
        pod: The pod.
        kubelet: Its node at the API server, which may read what pods on it refer to and no more.
    """
    namespace = pod["metadata"]["namespace"]
    for plural, name in dict.fromkeys(_references(pod["spec"])):
        if kubelet.find(f"/api/v1/namespaces/{namespace}/{plural}/{name}") is None:
            return f'{plural.removesuffix("s")} "{name}" not found'
    return ""


def _references(spec: Object) -> Iterator[tuple[str, str]]:
    """Return plural and name of each ConfigMap and Secret that must be there."""
    for volume in spec.get("volumes", ()):
        for source in (volume, *volume.get("projected", {}).get("sources", ())):
            yield from _of_source(source)
    for container in chain(spec.get("initContainers", ()), spec["containers"]):
        for each in container.get("envFrom", ()):
            yield from _of_reference(each.get("configMapRef"), "configmaps")
            yield from _of_reference(each.get("secretRef"), "secrets")
        for each in container.get("env", ()):
            taken = each.get("valueFrom", {})
            yield from _of_reference(taken.get("configMapKeyRef"), "configmaps")
            yield from _of_reference(taken.get("secretKeyRef"), "secrets")


def _of_source(source: Object) -> Iterator[tuple[str, str]]:
    yield from _of_reference(source.get("configMap"), "configmaps")
    secret = source.get("secret")
    if secret:
        # A volume says secretName, a projection name.
        yield from _of_reference(secret | {"name": secret.get("secretName") or secret.get("name")}, "secrets")


def _of_reference(reference: Object | None, plural: str) -> Iterator[tuple[str, str]]:
    if reference and reference.get("name") and not reference.get("optional"):
        yield plural, str(reference["name"])
