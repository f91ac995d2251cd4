"""What the Pod Security level of a team refuses of the pods that this library writes.

Preflight judges all that a level refuses, in anybody's manifests.
Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_facts.named_arguments import named_arguments

Level = Literal["privileged", "baseline", "restricted"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """What a level refuses.

    Attributes:
        rule: What a pod must have.
        got: What it has.
        fix: What to do.
    """

    rule: str
    got: str
    fix: str


_NO_EFA = Refused(rule="no efa, which needs IPC_LOCK", got="efa", fix="give the team pod_security='privileged'")


def refused(level: Level, manifest: Any) -> Refused | None:
    """Return what in a manifest the level refuses; ``None`` where nothing was found."""
    for pod in _pods(manifest):
        if level != "privileged" and any("IPC_LOCK" in _added(each) for each in _containers(pod)):
            return _NO_EFA
        root = [each for each in _containers(pod) if not _is_not_root(pod, each)] if level == "restricted" else []
        if root:
            fix = "name another user there and for its init containers, or give the team pod_security='baseline'"
            got = f"container {root[0].get('name')!r} without"
            return Refused(rule="run_as_user other than root", got=got, fix=fix)
    return None


def _pods(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the specs of pods in a manifest, wherever they stand."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _pods(each)


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for key in ("initContainers", "containers") for each in pod.get(key) or ()]


def _added(container: Mapping[str, Any]) -> list[str]:
    capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
    return list(capabilities.get("add") or ())


def _is_not_root(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    of_pod = (pod.get("securityContext") or {}).get("runAsNonRoot")
    return bool((container.get("securityContext") or {}).get("runAsNonRoot", of_pod))
