"""Taints of GPU nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gpu_constructs.facts import labels
from gpu_constructs.facts.kubernetes import LABEL_VALUE, QUALIFIED_NAME
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.refusals import refuse_unless_one_of

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """Keeps pods that do not tolerate it off a node.

    Attributes:
        key: Qualified name.
        value: Never empty: cluster autoscaler drops a managed node group's taint that has no value, and then
            scales the group up for pods that cannot land on it.
        effect: What happens to a pod that does not tolerate the taint.

    Raises:
        ValueError: Kubernetes or cluster autoscaler would refuse or ignore it.
    """

    key: str
    value: str
    effect: Effect = "NoSchedule"

    def __post_init__(self) -> None:
        who = f"taint {self.key!r}"
        if not isinstance(self.key, str) or not QUALIFIED_NAME.fullmatch(self.key):
            raise ValueError(f"{who}: key must be a qualified name such as 'example.com/team', got {self.key!r}")
        if not isinstance(self.value, str) or not self.value or not LABEL_VALUE.fullmatch(self.value):
            raise ValueError(
                f"{who}: value must be 1 to 63 letters, digits, '-', '_' or '.', got {self.value!r}; "
                "write 'true' where the value carries no meaning"
            )
        refuse_unless_one_of(who, "effect", self.effect, get_args(Effect))


# Keeps pods that ask for no GPU off the nodes that cost the most.
GPU_TAINT = Taint(key=labels.GPU_TAINT, value="true")
