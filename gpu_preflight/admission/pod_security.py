"""Pod Security: pods that the level of a namespace rejects.

Sources: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (2026-11), kubernetes/kubernetes v1.36.2
staging/src/k8s.io/pod-security-admission/policy/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpu_facts.labels import ENFORCED_LEVEL
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.unknown import Unknown, is_expression, items, known_text, mapping, mappings

_HOST = ("hostNetwork", "hostPID", "hostIPC")
_BASELINE_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_RESTRICTED_CAPABILITIES = frozenset(("NET_BIND_SERVICE",))
_RESTRICTED_VOLUMES = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    )
)
# A setting that a level rejects, and whether the pod certainly has it.
_Found = tuple[Answer, str]


def enforced_level(namespace: str, cluster: Cluster) -> str | None:
    """Return the level that a namespace of the input enforces: ``baseline``, ``restricted``, or ``None``."""
    for each in cluster.objects_of_kind("Namespace"):
        level = known_text(each.labels.get(ENFORCED_LEVEL)) if each.name == namespace else None
        if level in ("baseline", "restricted"):
            return level
    return None


def below_level(pod: Pod, namespace: str, cluster: Cluster) -> Iterator[Reason]:
    """Yield why the level of its namespace rejects a pod, or may reject it for values known at deployment only."""
    level = enforced_level(namespace, cluster)
    if level is None:
        return
    found = [
        *_baseline_violations(pod.written),
        *(_restricted_violations(pod.written) if level == "restricted" else ()),
    ]
    refused = list(dict.fromkeys(text for answer, text in found if answer is Answer.NO))
    who = f"Pod Security level {level} of namespace {namespace}"
    for each in refused:
        yield Reason(Answer.NO, "refused", f"{who} rejects {each}", rule="GPU372")
    if may_be := [each for each in dict.fromkeys(text for _, text in found) if each not in refused]:
        text = f"{who} may reject {', '.join(may_be)}: the pod's value is known at deployment only"
        yield Reason(Answer.UNKNOWN, "refused", text, rule="GPU372")


def _baseline_violations(pod: Mapping[str, Any]) -> Iterator[_Found]:
    contexts, whole = _contexts(pod), pod.get("securityContext")
    for name in _HOST:
        yield from _refused(name, [pod.get(name)], lambda value: value is True)
    yield from _refused("hostPath volumes", _listed(pod.get("volumes")), lambda each: "hostPath" in mapping(each))
    ports = [port for each in _containers(pod) for port in _listed(each.get("ports"))]
    yield from _refused("hostPort", _each(ports, "hostPort"), bool)
    yield from _refused("privileged containers", _each(contexts, "privileged"), lambda value: value is True)
    yield from _added(contexts, _BASELINE_CAPABILITIES)
    yield from _refused("procMount", _each(contexts, "procMount"), lambda value: value not in (None, "Default"))
    types = _each([*contexts, whole], "seccompProfile", "type")
    yield from _refused("seccompProfile Unconfined", types, lambda value: value == "Unconfined")


def _restricted_violations(pod: Mapping[str, Any]) -> Iterator[_Found]:
    contexts, whole = _contexts(pod), pod.get("securityContext")
    for each in _listed(pod.get("volumes")):
        for kind in [each] if _is_open(each) else (kind for kind in mapping(each) if kind != "name"):
            text = "volumes of other kinds" if _is_open(kind) else f"{kind} volumes"
            yield from _refused(text, [kind], lambda value: value not in _RESTRICTED_VOLUMES)
    escalations = _each(contexts, "allowPrivilegeEscalation")
    yield from _refused(
        "containers without allowPrivilegeEscalation: false", escalations, lambda value: value is not False
    )
    drops = map(_dropped, contexts)
    yield from _refused("containers that don't drop capability ALL", drops, lambda value: value != "ALL")
    yield from _added(contexts, _RESTRICTED_CAPABILITIES)
    users = _each_or(contexts, whole, "runAsNonRoot")
    yield from _refused("containers without runAsNonRoot: true", users, lambda value: value is not True)
    types = _each_or(contexts, whole, "seccompProfile", "type")
    yield from _refused("containers without seccompProfile", types, lambda value: not value)
    yield from _refused("runAsUser 0", _each([*contexts, whole], "runAsUser"), lambda value: value == 0)


def _refused(text: str, values: Iterable[Any], is_wrong: Callable[[Any], bool]) -> Iterator[_Found]:
    """Yield a setting that a level rejects if a value is wrong, or isn't known and may be wrong."""
    listed = list(values)
    if any(is_wrong(each) for each in listed if not _is_open(each)):
        yield Answer.NO, text
    elif any(map(_is_open, listed)):
        yield Answer.UNKNOWN, text


def _is_open(value: Any) -> bool:
    return isinstance(value, Unknown) or (isinstance(value, str) and is_expression(value))


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))]


def _contexts(pod: Mapping[str, Any]) -> list[Any]:
    return [each.get("securityContext") for each in _containers(pod)]


def _each(parts: Iterable[Any], *path: str) -> list[Any]:
    return [_value_at_path(each, *path) for each in parts]


def _each_or(contexts: Iterable[Any], whole: Any, *path: str) -> list[Any]:
    """Return each container's value, or the pod's value if the container has none."""
    return [_value_at_path(whole, *path) if own is None else own for own in _each(contexts, *path)]


def _value_at_path(value: Any, *path: str) -> Any:
    """Return the value at a path of mappings, or the unknown value on the way to it."""
    for key in path:
        if _is_open(value):
            return value
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _listed(value: Any) -> list[Any]:
    return [value] if _is_open(value) else items(value)


def _added(contexts: Iterable[Any], allowed: frozenset[str]) -> Iterator[_Found]:
    for name in (name for each in contexts for name in _listed(_value_at_path(each, "capabilities", "add"))):
        text = "capabilities beyond the default" if _is_open(name) else f"capability {name}"
        yield from _refused(text, [name], lambda value: value not in allowed)


def _dropped(context: Any) -> Any:
    """Return ``ALL`` if a container drops it, otherwise an unknown name that it drops."""
    names = _listed(_value_at_path(context, "capabilities", "drop"))
    return "ALL" if "ALL" in names else next(filter(_is_open, names), None)
