"""How parts of a pod and parts of a node go together, remembered, because most pods and most pools are alike."""

from __future__ import annotations

from gpu_facts.light import dataclass
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.fitting import Part, PartOf, check_labels, check_resources, check_taints


@dataclass(frozen=True, slots=True)
class Profile:
    """What tells a node from others, as numbers that are quick to compare.

    Attributes:
        taints: Its taints, in both views.
        resources: What it has for pods, in both views.
        labels: Each of its labels, in both views.
    """

    taints: int
    resources: int
    labels: dict[str, int]


class Memory:
    """Remembers each part of a fit by what it depends on; `ask` is what `fits` asks with."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._ids: dict[object, int] = {}
        self._profiles: dict[int, Profile] = {}
        self._parts: dict[object, Part] = {}

    def number(self, value: object) -> int:
        """Return a number that equal values share."""
        return self._ids.setdefault(value, len(self._ids))

    def ask(self, part: PartOf, wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
        """Return what a part of a fit says, from memory where pod and node are alike in all that it depends on."""
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
        """Return what tells a node from others; nodes and pools outlive the memory of them."""
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
