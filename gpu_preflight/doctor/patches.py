"""Changes that remove a cause: as a command to copy, and applied to the dump to see whether the pod runs then."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.taints import Taint
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mappings
from gpu_preflight.remedies.change import Change, pod_path, with_change

# Their pods are replaced after a change of the template. The template of a Job can't be changed.
_REPLACED = ("Deployment", "StatefulSet", "DaemonSet")
# The simulation of more nodes takes as long as all other parts together.
_MAX_NODES = 1_000


def tolerating(target: Target, taints: Sequence[Taint]) -> Change:
    """Return the change that adds tolerations to a pod."""
    value = [*mappings(target.spec.get("tolerations"))]
    for each in taints:
        own = {"key": each.key, "operator": "Equal" if each.value else "Exists", "effect": each.effect}
        value.append({**own, "value": each.value} if each.value else own)
    text = f"tolerate {', '.join(map(str, taints))}"
    return Change(text, target.named.origin, ("spec", "tolerations"), value)


def command(target: Target, change: Change) -> str:
    """Return the command for a change of a pod's spec; empty if the workload must be created again."""
    root, path = target.root, pod_path(target.root)
    is_of_owner = root.kind in _REPLACED and path is not None
    # The API server accepts new tolerations of a pod that exists, and no other change of its spec.
    if not is_of_owner and (target.owners or change.property[-1] != "tolerations"):
        return ""
    body: Any = change.value
    for name in reversed((*(path or ()), *change.property[1:])):
        body = {name: body}
    return patch_command(root, body)


def patch_command(each: Object, body: Any) -> str:
    """Return the command that applies a patch to an object."""
    name, text = shlex.quote(each.name), shlex.quote(json.dumps(body, separators=(",", ":")))
    # Custom resources have no strategic merge patch.
    is_built_in = "." not in each.group or (each.group.endswith(".k8s.io") and not each.group.endswith(".x-k8s.io"))
    kind = "" if is_built_in else " --type merge"
    resource = f"{each.kind.lower()}.{each.group}" if "." in each.group else each.kind.lower()
    namespace = f" -n {shlex.quote(each.namespace)}" if dig(each.content, "metadata", "namespace") else ""
    return f"kubectl patch {resource} {name}{namespace}{kind} -p {text}"


def kubectl(verb: str, each: Object, *options: str) -> str:
    """Return a command about an object, such as ``kubectl describe pod -n NAMESPACE NAME``."""
    kind = () if verb in ("logs", "drain", "uncordon") else (each.kind.lower(),)
    place = ("-n", each.namespace) if dig(each.content, "metadata", "namespace") else ()
    return shlex.join(("kubectl", verb, *kind, *place, each.name, *options))


def tried(live: Live, target: Target, change: Change) -> str:
    """Return where the pod runs after a change of one object of the dump; empty if it still doesn't, or for no pod."""
    if target.pod is None or target.node is not None:
        return ""
    objects = list(with_change(tuple(live.dump.objects), change))
    after = Live(replace(live.dump, objects=objects), live.now)
    pod = next(each for each in objects if each.origin == target.pod.origin)
    again = after.target(pod)
    # Pods that aren't in the dump may use the devices.
    fits = after.fits(again) if after.certainty("Pod") is not None else []
    if taking := next((each for each in fits if each.fits), None):
        return f"with this change, node {taking.node.name} takes {target.title}"
    verdict = after.verdict(again) if len(after.nodes) <= _MAX_NODES else None
    pools = [each.pool for each in verdict.pools if each.answer is Answer.YES] if verdict is not None else []
    return f"with this change, {target.title} runs on {pools[0].title}" if pools else ""
