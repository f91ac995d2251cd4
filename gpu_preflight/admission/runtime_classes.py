"""Runtime classes: what they add to a pod.

Source: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/runtimeclass/admission.go
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.quantities import resources
from gpu_preflight.admission.missing import missing
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import has_unknown
from gpu_preflight.model.label_values import equal
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.taints import merged, tolerations
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping

# Charts that bring a RuntimeClass of their own.
_BRINGS_RUNTIME_CLASSES = (GPU_OPERATOR,)


def without_runtime_class(pod: Pod, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is refused: its class is not there, or goes against it."""
    name, found = pod.runtime_class, _runtime_class(pod, cluster)
    if name and found is None and not any(cluster.chart(each) for each in _BRINGS_RUNTIME_CLASSES):
        known = [each.name for each in cluster.of_kind("RuntimeClass")]
        yield from missing(f"runtimeClassName {name} is no RuntimeClass of the cluster", name, known, cluster, "GPU126")
    for each in _contradicted(pod, found) if found else ():
        yield Reason(Answer.NO, "refused", each, rule="GPU126")
    if (found or not name) and not has_unknown(pod.overhead) and resources(pod.overhead) != _overhead(found):
        text = f"its overhead is not that of {f'RuntimeClass {name}' if name else 'a RuntimeClass, which it has not'}"
        yield Reason(Answer.NO, "refused", text, rule="GPU126")


def with_runtime_class(pod: Pod, cluster: Cluster) -> Pod:
    """Return a pod with the node selector, the tolerations and the overhead of its class."""
    found = _runtime_class(pod, cluster)
    if found is None:
        return pod
    chosen, given = _selector(found), tolerations(dig(found.content, "scheduling", "tolerations"))
    overhead = mapping(dig(found.content, "overhead", "podFixed"))
    selection = replace(pod.selection, selector=(*pod.selection.selector, *equal(chosen)))
    return replace(
        pod,
        selection=selection,
        tolerations=merged(pod.tolerations, given),
        overhead=pod.overhead or overhead,
        likeness=f"{pod.likeness} {chosen} {given} {overhead}",
    )


def _runtime_class(pod: Pod, cluster: Cluster) -> Object | None:
    if not pod.runtime_class:
        return None
    return next((each for each in cluster.of_kind("RuntimeClass") if each.name == pod.runtime_class), None)


def _overhead(found: Object | None) -> dict[str, int]:
    return resources(dig(found.content, "overhead", "podFixed")) if found else {}


def _selector(found: Object) -> dict[str, object]:
    return mapping(dig(found.content, "scheduling", "nodeSelector"))


def _contradicted(pod: Pod, found: Object) -> Iterator[str]:
    """Yield labels of which the pod wants another value than its class."""
    wanted = {each.key: each for each in equal(_selector(found))}
    for each in pod.selection.selector:
        other = wanted.get(each.key)
        if other is not None and None not in (each.values, other.values) and each.values != other.values:
            yield f"its node selector {each} goes against {other} of RuntimeClass {found.name}"
