"""The ConfigMaps and Secrets that a pod names and does not start without.

Source: https://kubernetes.io/docs/concepts/configuration/secret/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping, mappings

DataKind = Literal["ConfigMap", "Secret"]
# A controller makes it in every namespace.
# Source: kubernetes/kubernetes v1.36.3 pkg/controller/certificates/rootcacertpublisher/publisher.go
_EVERYWHERE = ("kube-root-ca.crt",)
# What makes a Secret, and where it says the name; without one it is the object's own.
# Sources: external-secrets/external-secrets v1.3.2, bitnami/sealed-secrets v0.32, cert-manager/cert-manager v1.19
_MAKERS = {
    "ExternalSecret": ("spec", "target", "name"),
    "SealedSecret": ("spec", "template", "metadata", "name"),
    "Certificate": ("spec", "secretName"),
}


@dataclass(frozen=True, slots=True)
class NamedData:
    """A ConfigMap or Secret as a pod names it.

    Attributes:
        kind: Which of the two.
        name: Its name.
        keys: Keys of it that the pod does not start without.
    """

    kind: DataKind
    name: str
    keys: tuple[str, ...] = ()


def named_data(pod: Pod) -> Iterator[NamedData]:
    """Yield what a pod names; what it does without, or is known at deployment only, is left out."""
    for volume in mappings(pod.written.get("volumes")):
        yield from _of_source(volume, "secretName")
        for each in mappings(dig(volume, "projected", "sources")):
            yield from _of_source(each, "name")
    for container in (*mappings(pod.written.get("initContainers")), *mappings(pod.written.get("containers"))):
        for each in mappings(container.get("env")):
            source = mapping(each.get("valueFrom"))
            yield from _named("ConfigMap", source.get("configMapKeyRef"), "name")
            yield from _named("Secret", source.get("secretKeyRef"), "name")
        for each in mappings(container.get("envFrom")):
            yield from _named("ConfigMap", each.get("configMapRef"), "name")
            yield from _named("Secret", each.get("secretRef"), "name")


def _of_source(source: Mapping[str, Any], name_of_secret: str) -> Iterator[NamedData]:
    yield from _named("ConfigMap", source.get("configMap"), "name")
    yield from _named("Secret", source.get("secret"), name_of_secret)


def _named(kind: DataKind, source: Any, field: str) -> Iterator[NamedData]:
    name = _text(dig(source, field))
    if name is None or dig(source, "optional") not in (None, False) or name in _EVERYWHERE:
        return
    keys = [_text(each) for each in (dig(source, "key"), *(dig(each, "key") for each in items(dig(source, "items"))))]
    yield NamedData(kind, name, tuple(each for each in keys if each is not None))


def _text(value: Any) -> str | None:
    text = known_text(value)
    return None if text is None or is_expression(text) else text


def keys_by_name(kind: DataKind, namespace: str, cluster: Cluster) -> dict[str, frozenset[str] | None]:
    """Return the keys of each ConfigMap or Secret of a namespace; ``None`` where a controller fills it in."""
    found: dict[str, frozenset[str] | None] = {}
    for each in cluster.of_kind(kind):
        if each.namespace == namespace:
            keys, more = _keys(each), found.get(each.name, frozenset())
            # Written twice, as a base and what is laid over it, it has the keys of both.
            found[each.name] = None if keys is None or more is None else keys | more
    for each in cluster.of_kind(*_MAKERS) if kind == "Secret" else ():
        if each.namespace == namespace:
            found[_text(dig(dict(each.content), *_MAKERS[each.kind])) or each.name] = None
    return found


def _keys(each: Object) -> frozenset[str] | None:
    parts = [each.content.get(part) for part in ("data", "binaryData", "stringData")]
    keys = frozenset(key for part in parts for key in mapping(part))
    # An empty one is there to be filled.
    return keys if keys and not any(isinstance(part, Unknown) for part in parts) else None
