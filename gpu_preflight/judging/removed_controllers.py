"""Controllers that a deployment uninstalls before the objects whose finalizers only they remove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_facts.charts import KARPENTER, KEDA, KUEUE
from gpu_facts.labels import KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN
from gpu_preflight.judging.things import Thing, references
from gpu_preflight.reading.inputs import Input

# Chart, and the kinds whose objects, or whose NodeClaims, have a finalizer that its controller removes.
# Sources, read 2026-11: https://karpenter.sh/v1.15/concepts/disruption/ (karpenter.sh/termination of NodeClaims) and
# EC2NodeClasses (karpenter.k8s.aws/termination); kedacore/keda controllers/keda (finalizer.keda.sh); kueue
# apis/kueue, ResourceInUseFinalizerName (kueue.x-k8s.io/resource-in-use)
_FINALIZED: Mapping[str, frozenset[tuple[str, str]]] = {
    KARPENTER: frozenset({(KARPENTER_DOMAIN, "NodePool"), (KARPENTER_AWS_DOMAIN, "EC2NodeClass")}),
    KEDA: frozenset({("keda.sh", "ScaledObject"), ("keda.sh", "ScaledJob")}),
    KUEUE: frozenset({(KUEUE_DOMAIN, "ClusterQueue"), (KUEUE_DOMAIN, "ResourceFlavor")}),
}
_Things = Mapping[tuple[str, ...], Thing]


def abandoned_objects(old: Input, new: Input, before: _Things, after: _Things) -> Iterator[tuple[Thing, str]]:
    """Yield the releases of controllers that are uninstalled too early, and what this leaves in the cluster."""
    installed = {each.name for each in new.charts}
    controllers = {str(each.origin.resource): each.name for each in old.charts if each.name not in installed}
    kept = {each.once for each in after.values() if each.applied is not None}
    for release in before.values():
        name = controllers.get(release.resource.key, "") if release.resource is not None else ""
        if name not in _FINALIZED or release.resource is None or release.key in after:
            continue
        cluster = str(release.once[1]) if release.once else None
        served = [
            each
            for each in before.values()
            if each.applied is not None and (each.applied.group, each.applied.kind) in _FINALIZED[name]
            if each.once is not None and each.once[0] == cluster
        ]
        staying = [each.what for each in served if each.once in kept]
        early = [
            each.what for each in served if each.once not in kept and not _depends(each, release.resource.key, old)
        ]
        if staying:
            yield release, f"{', '.join(staying)} stay without their controller; remove them in a deployment before it"
        elif early:
            yield (
                release,
                (
                    f"{', '.join(early)} may be deleted after it, as they don't depend on the release, and then keep "
                    "their finalizers, and what they launched keeps running; remove them in a deployment before it"
                ),
            )


def _depends(thing: Thing, key: str, read: Input) -> bool:
    """Whether CloudFormation deletes what applies an object before another resource of its stack.

    An object of a file isn't deleted by a deployment.
    """
    if thing.resource is None:
        return True
    seen: set[str] = set()
    left = [thing.resource.key]
    while left:
        one = read.resources.get(left.pop())
        if one is None or one.key in seen:
            continue
        seen.add(one.key)
        left += [each for each in (*one.depends_on, *references(one.properties)) if _stack(each) == _stack(key)]
    return key in seen


def _stack(key: str) -> str:
    return key.partition("/")[0]
