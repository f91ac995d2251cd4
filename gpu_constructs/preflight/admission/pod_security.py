"""Pod Security: what the level of a namespace refuses.

Sources: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (2026-11), kubernetes/kubernetes v1.36.2
staging/src/k8s.io/pod-security-admission/policy/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_constructs.facts.labels import ENFORCED_LEVEL
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.model.pod import Pod
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings

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


def level_of(namespace: str, cluster: Cluster) -> str | None:
    """Return the level that a namespace of the input enforces: ``baseline``, ``restricted``, or ``None``."""
    for each in cluster.of_kind("Namespace"):
        level = known_text(each.labels.get(ENFORCED_LEVEL)) if each.name == namespace else None
        if level in ("baseline", "restricted"):
            return level
    return None


def below_level(pod: Pod, namespace: str, cluster: Cluster) -> Iterator[Reason]:
    """Yield why the level of its namespace refuses a pod."""
    level = level_of(namespace, cluster)
    if level is None:
        return
    found = [*_of_baseline(pod.written), *(_of_restricted(pod.written) if level == "restricted" else ())]
    for each in dict.fromkeys(found):
        text = f"namespace {namespace} enforces Pod Security level {level}, which refuses {each}"
        yield Reason(Answer.NO, "refused", text, rule="GPU372")


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))]


def _contexts(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [mapping(each.get("securityContext")) for each in _containers(pod)]


def _of_baseline(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name in _HOST if pod.get(name) is True)
    if any("hostPath" in each for each in mappings(pod.get("volumes"))):
        yield "hostPath volumes"
    if any(port.get("hostPort") for each in _containers(pod) for port in mappings(each.get("ports"))):
        yield "hostPort"
    for each in _contexts(pod):
        if each.get("privileged") is True:
            yield "privileged containers"
        yield from _added(each, _BASELINE_CAPABILITIES)
        if known_text(each.get("procMount")) not in (None, "Default"):
            yield "procMount"
    for each in (*_contexts(pod), mapping(pod.get("securityContext"))):
        if dig(each, "seccompProfile", "type") == "Unconfined":
            yield "seccompProfile Unconfined"


def _added(context: Mapping[str, Any], allowed: frozenset[str]) -> Iterator[str]:
    for name in items(dig(context, "capabilities", "add")):
        if isinstance(name, str) and name not in allowed:
            yield f"capability {name}"


def _of_restricted(pod: Mapping[str, Any]) -> Iterator[str]:
    whole = mapping(pod.get("securityContext"))
    for each in mappings(pod.get("volumes")):
        yield from (f"{kind} volumes" for kind in each if kind != "name" and kind not in _RESTRICTED_VOLUMES)
    for each in _contexts(pod):
        if not _may_be(each.get("allowPrivilegeEscalation"), False):
            yield "containers without allowPrivilegeEscalation: false"
        if not _drops_all(each):
            yield "containers that do not drop capability ALL"
        yield from _added(each, _RESTRICTED_CAPABILITIES)
        if not _may_be(each.get("runAsNonRoot", whole.get("runAsNonRoot")), True):
            yield "containers without runAsNonRoot: true"
        if not any(dig(one, "seccompProfile", "type") for one in (each, whole)):
            yield "containers without seccompProfile"
    if any(each.get("runAsUser") == 0 for each in (*_contexts(pod), whole)):
        yield "runAsUser 0"


def _may_be(value: Any, wanted: bool) -> bool:
    return isinstance(value, Unknown) or value is wanted


def _drops_all(context: Mapping[str, Any]) -> bool:
    dropped = dig(context, "capabilities", "drop")
    return isinstance(dropped, Unknown) or any(each == "ALL" or isinstance(each, Unknown) for each in items(dropped))
