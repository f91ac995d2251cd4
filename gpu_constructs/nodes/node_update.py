"""How EKS replaces the nodes of a managed group when their image or launch template changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gpu_constructs.pools.capacity import Capacity, CapacityBlock
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_one_of, refuse_unless_whole_number

UpdateStrategy = Literal["MINIMAL", "DEFAULT"]
_SHARE = re.compile(r"([1-9]\d?|100)%", re.ASCII)
_MOST_NODES = 100


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUpdate:
    """How many nodes of a managed group EKS replaces at once, and whether the new ones come first.

    ``MINIMAL`` ends a node before it launches the next one: an update needs no spare GPU, of which a reservation or a
    Capacity Block has none, and what is sold out gives none either. While it lasts there are as many nodes less as are
    unavailable. ``DEFAULT`` launches the new ones first.

    Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html,
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)

    Attributes:
        max_unavailable: Nodes replaced at once: a number, at most 100, or a share of the group such as ``"33%"``.
        strategy: ``MINIMAL`` or ``DEFAULT``.

    Raises:
        TypeError: ``max_unavailable`` is neither number nor share.
        ValueError: EKS would refuse it.
    """

    max_unavailable: int | str = 1
    strategy: UpdateStrategy = "MINIMAL"

    def __post_init__(self) -> None:
        who = "node update"
        refuse_unless_one_of(who, "strategy", self.strategy, get_args(UpdateStrategy))
        if not isinstance(self.max_unavailable, str):
            refuse_unless_whole_number(who, "max_unavailable", self.max_unavailable, least=1, most=_MOST_NODES)
        elif not _SHARE.fullmatch(self.max_unavailable):
            raise ValueError(
                f"{who}: max_unavailable must be a number or a share from '1%' to '100%', got {self.max_unavailable!r}"
            )

    def refuse_beside(self, who: object, capacity: Capacity) -> None:
        """Refuse to launch new nodes first where every instance that there is runs already.

        Raises:
            ValueError: The nodes are those of a Capacity Block.
        """
        if isinstance(capacity, CapacityBlock) and self.strategy == "DEFAULT":
            raise ValueError(
                f"{who}: update must have strategy 'MINIMAL' with a Capacity Block, got 'DEFAULT'; the group is as "
                "large as the block, so that nothing is left to launch the new nodes on [GPU029]"
            )

    def to_properties(self) -> dict[str, Any]:
        """Return ``UpdateConfig`` of a managed group."""
        if isinstance(self.max_unavailable, str):
            return {"maxUnavailablePercentage": int(self.max_unavailable[:-1]), "updateStrategy": self.strategy}
        return {"maxUnavailable": self.max_unavailable, "updateStrategy": self.strategy}
