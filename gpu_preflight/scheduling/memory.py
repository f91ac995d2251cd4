"""A cache for the checks of pods against nodes. Most pods and most pools are alike."""

from __future__ import annotations

from gpu_facts.light import dataclass
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import Part, PartOf, check_labels, check_resources, check_taints


@dataclass(frozen=True, slots=True)
class Profile:
    """A key that is equal for nodes that are alike, as numbers that are quick to compare.

    Attributes:
        taints: Its taints, as they are and in the autoscaler's view.
        resources: Its allocatable resources, as they are and in the autoscaler's view.
        labels: Each of its labels, as they are and in the autoscaler's view.
    """

    taints: int
    resources: int
    labels: dict[str, int]


class Memory:
    """Caches each check of `fits` by the values that the check depends on. Pass `ask` to `fits`."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._ids: dict[object, int] = {}
        self._profiles: dict[int, Profile] = {}
        self._parts: dict[object, Part] = {}

    def number(self, value: object) -> int:
        """Return a number that is the same for equal values."""
        return self._ids.setdefault(value, len(self._ids))

    def ask(self, part: PartOf, wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
        """Return the result of a check, from the cache if pod and node are alike in everything that the check reads."""
        profile = self._profiles.get(id(node)) or self.profile(node, pool)
        key: object
        if part is check_taints:
            key = part, wanted.tolerations_key, profile.taints
        elif part is check_resources:
            key = part, wanted.requests_key, profile.resources
        elif part is check_labels:
            key = part, wanted.selection_key, pool.kind, *[profile.labels.get(name) for name in wanted.keys]
        else:
            return part(wanted, node, pool)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = part(wanted, node, pool)
        return found

    def profile(self, node: NodeToBe, pool: Pool) -> Profile:
        """Return the key of a node. Nodes and pools live longer than the cache."""
        found = self._profiles.get(id(node))
        if found is None:
            found = self._profiles[id(node)] = self._profile(node, pool)
        return found

    def _profile(self, node: NodeToBe, pool: Pool) -> Profile:
        sizes = (frozenset(each.items()) for each in (node.least, node.most, node.believed))
        taken = frozenset(node.taken.items())
        keys = {**node.labels, **node.believed_labels}
        return Profile(
            taints=self.number(("taints", node.taints, node.believed_taints, pool.kind)),
            resources=self.number(
                ("resources", *sizes, node.unsaid, node.unseen, node.alone, taken, node.instance_type, pool.kind)
            ),
            labels={key: self.number((node.labels.get(key), node.believed_labels.get(key))) for key in keys},
        )
