"""When EKS reboots or replaces a broken node of a managed group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gpu_facts.kubernetes import NodeCondition
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_one_of, refuse_unless_whole_number

_SHARE = re.compile(r"(\d{1,2}|100)%", re.ASCII)
Action = Literal["Replace", "Reboot", "NoAction"]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class RepairOverride:
    """What happens for one reason, in place of EKS' own choice. EKS asks for all four values.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfigOverrides.html

    Attributes:
        condition: Condition of the node, e.g. ``AcceleratedHardwareReady``.
        reason: Reason the agent gives, e.g. ``NvidiaXID64Error``.
        wait_minutes: How long the condition holds before something is done.
        action: ``Replace``, ``Reboot`` or ``NoAction``.

    Raises:
        TypeError: ``wait_minutes`` is no whole number.
        ValueError: EKS would refuse or never apply it.
    """

    condition: NodeCondition
    reason: str
    wait_minutes: int
    action: Action

    def __post_init__(self) -> None:
        who = "repair override"
        refuse_unless_one_of(who, "condition", self.condition, get_args(NodeCondition))
        refuse_unless_one_of(who, "action", self.action, get_args(Action))
        refuse_unless_whole_number(who, "wait_minutes", self.wait_minutes, least=1)
        if not isinstance(self.reason, str) or not (self.reason.isascii() and self.reason.isalnum()):
            raise ValueError(f"{who}: reason must be one word such as 'NvidiaXID64Error', got {self.reason!r}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRepair:
    """Repair of a managed group's nodes. It acts on what the add-on ``eks-node-monitoring-agent`` finds.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html

    Attributes:
        enabled: Repair at all.
        max_unhealthy: Nothing is repaired while more nodes than that are unhealthy: a number, or a share such as
            ``"20%"``. Default: EKS', 20 % of more than five nodes.
        max_parallel: Nodes repaired at once, a number or a share of the unhealthy ones. Default: EKS'.
        overrides: What happens for single reasons.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would refuse it.
    """

    enabled: bool = True
    max_unhealthy: int | str | None = None
    max_parallel: int | str | None = None
    overrides: Sequence[RepairOverride] = ()

    def __post_init__(self) -> None:
        who = "node repair"
        refuse_unless_bool(who, "enabled", self.enabled)
        for argument in ("max_unhealthy", "max_parallel"):
            _refuse_unless_amount(who, argument, getattr(self, argument))
        made = isinstance(self.overrides, (list, tuple)) and all(
            isinstance(each, RepairOverride) for each in self.overrides
        )
        if not made:
            raise TypeError(f"{who}: overrides must be a tuple of RepairOverride, got {self.overrides!r}")
        object.__setattr__(self, "overrides", tuple(self.overrides))
        if len({(each.condition, each.reason) for each in self.overrides}) < len(self.overrides):
            raise ValueError(f"{who}: overrides must differ in condition or reason, got one twice")

    def to_properties(self) -> dict[str, Any]:
        """Return ``NodeRepairConfig`` of a managed group."""
        found: dict[str, Any] = {"enabled": self.enabled}
        found |= _amount("maxUnhealthyNodeThreshold", self.max_unhealthy)
        found |= _amount("maxParallelNodesRepaired", self.max_parallel)
        if self.overrides:
            found["nodeRepairConfigOverrides"] = [
                {
                    "nodeMonitoringCondition": each.condition,
                    "nodeUnhealthyReason": each.reason,
                    "minRepairWaitTimeMins": each.wait_minutes,
                    "repairAction": each.action,
                }
                for each in self.overrides
            ]
        return found


def _refuse_unless_amount(who: str, argument: str, amount: object) -> None:
    if amount is None:
        return
    share = isinstance(amount, str) and _SHARE.fullmatch(amount) is not None
    if not share:
        if isinstance(amount, str):
            raise ValueError(f"{who}: {argument} must be a number or a share such as '20%', got {amount!r}")
        refuse_unless_whole_number(who, argument, amount, least=1)


def _amount(name: str, amount: int | str | None) -> dict[str, int]:
    if amount is None:
        return {}
    if isinstance(amount, str):
        return {f"{name}Percentage": int(amount[:-1])}
    return {f"{name}Count": amount}
