"""When nodes are removed or replaced: disruption of Karpenter, and node repair of EKS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from gpu_facts.kubernetes import NodeCondition
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_choice, refuse_unless_whole_number, words

Consolidation = Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]
# The NodePool CRD of v1.15.1 has "Unhealthy", v1.14.1 doesn't.
Reason = Literal["Empty", "Underutilized", "Drifted", "Unhealthy"]
# Patterns and limits of the NodePool CRD of v1.14.1.
_NODES = re.compile(r"(100|[0-9]{1,2})%|[0-9]+")
_CRON = re.compile(r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|\S+( \S+){4}")
_MAX_BUDGETS = 50

# Node repair of EKS.
Action = Literal["Replace", "Reboot", "NoAction"]
_SHARE = re.compile(r"(\d{1,2}|100)%", re.ASCII)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How many nodes of a pool may go at once, always or in a window of time.

    Attributes:
        nodes: A number of nodes, ``"0"``, or a share, ``"10%"``.
        reasons: What it counts for; ``Unhealthy`` bounds the repair of broken nodes, with Karpenter 1.15 and
            ``node_repair``. Default: every reason.
        schedule: Cron line, in UTC, of when it begins. Default: it always holds.
        minutes: How long it holds from then on, in minutes; goes with ``schedule``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter would refuse it.
    """

    nodes: str
    reasons: Sequence[Reason] = ()
    schedule: str | None = None
    minutes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, str) or not _NODES.fullmatch(self.nodes):
            raise ValueError(f"budget: nodes must be a number or a share such as '0' or '10%', got {self.nodes!r}")
        object.__setattr__(self, "reasons", words("budget", "reasons", self.reasons))
        for reason in self.reasons:
            refuse_unless_choice("budget", "reasons", reason, get_args(Reason))
        if (self.schedule is None) != (self.minutes is None):
            got = f"{self.schedule!r} and {self.minutes!r}"
            raise ValueError(f"budget: schedule and minutes must go together, got {got}")
        if self.minutes is not None:
            refuse_unless_whole_number("budget", "minutes", self.minutes, least=1)
        if self.schedule is not None and not (isinstance(self.schedule, str) and _CRON.fullmatch(self.schedule)):
            raise ValueError(f"budget: schedule must be a cron line such as '0 8 * * 1-5', got {self.schedule!r}")

    def to_manifest(self) -> dict[str, Any]:
        """Return it as a NodePool spells it."""
        found: dict[str, Any] = {"nodes": self.nodes}
        if self.reasons:
            found["reasons"] = list(self.reasons)
        if self.schedule is not None:
            found |= {"schedule": self.schedule, "duration": f"{self.minutes}m"}
        return found


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Disruption:
    """When nodes are removed or replaced.

    Attributes:
        consolidation: ``WhenEmpty`` removes empty nodes only; ``WhenEmptyOrUnderutilized`` also moves pods together,
            and ``Balanced`` does where it saves more than it disturbs.
        consolidate_after_minutes: How long nothing may have happened on the node before. Default: ``None``, never.
        budgets: How many nodes may go at once.
        expire_after_hours: Age at which a node is drained, whatever the budgets say. Default: ``None``, never.
        termination_grace_minutes: How long a drained node may take before its pods are deleted all the same, also
            those that must not be disrupted. Default: ``None``, as long as it takes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter would refuse it.
    """

    consolidation: Consolidation
    consolidate_after_minutes: int | None = None
    budgets: Sequence[Budget] = ()
    expire_after_hours: int | None = None
    termination_grace_minutes: int | None = None

    def __post_init__(self) -> None:
        who = "disruption"
        refuse_unless_choice(who, "consolidation", self.consolidation, get_args(Consolidation))
        if not isinstance(self.budgets, (list, tuple)) or not all(isinstance(each, Budget) for each in self.budgets):
            raise TypeError(f"{who}: budgets must be a tuple of Budget, got {self.budgets!r}")
        if len(self.budgets) > _MAX_BUDGETS:
            raise ValueError(f"{who}: budgets must be at most {_MAX_BUDGETS}, got {len(self.budgets)}")
        object.__setattr__(self, "budgets", tuple(self.budgets))
        for argument, least in (
            ("consolidate_after_minutes", 0),
            ("expire_after_hours", 1),
            ("termination_grace_minutes", 1),
        ):
            if getattr(self, argument) is not None:
                refuse_unless_whole_number(who, argument, getattr(self, argument), least=least)

    @property
    def bounds_repair(self) -> bool:
        """Whether a budget names the repair of broken nodes, which only Karpenter 1.15 knows."""
        return any("Unhealthy" in each.reasons for each in self.budgets)

    def with_repair(self) -> Disruption:
        """Return the profile with one broken node repaired at a time: without a budget all of them are at once."""
        return replace(self, budgets=(*self.budgets, Budget(nodes="1", reasons=("Unhealthy",))))

    @classmethod
    def suited_to(cls, purpose: str | None, *, static: bool) -> Disruption:
        """Return the profile for what runs on the nodes; without a word on that, the one that never moves a pod."""
        if static:
            return cls.static()
        return cls.inference() if purpose == "inference" else cls.training()

    @classmethod
    def training(cls) -> Disruption:
        """Return the profile for runs that must not be interrupted: a node goes when it has been empty for a while."""
        stays = Budget(nodes="0", reasons=("Drifted", "Underutilized"))
        return cls(
            consolidation="WhenEmpty",
            consolidate_after_minutes=10,
            budgets=(Budget(nodes="100%", reasons=("Empty",)), stays),
        )

    @classmethod
    def inference(cls) -> Disruption:
        """Return the profile for replicas that may move one by one: pods are packed, a new image reaches the nodes."""
        few = Budget(nodes="10%", reasons=("Drifted", "Underutilized"))
        return cls(
            consolidation="WhenEmptyOrUnderutilized",
            # A model takes minutes to load, and traffic dips for minutes.
            consolidate_after_minutes=30,
            budgets=(Budget(nodes="100%", reasons=("Empty",)), few),
        )

    @classmethod
    def static(cls) -> Disruption:
        """Return the profile for a fixed number of nodes, which are never empty: one at a time gets a new image.

        A pod that must not be disrupted keeps its node from that.
        """
        return cls(
            consolidation="WhenEmpty",
            consolidate_after_minutes=10,
            budgets=(Budget(nodes="1", reasons=("Drifted",)),),
        )

    def to_manifest(self) -> dict[str, Any]:
        """Return ``spec.disruption`` of a NodePool."""
        after = self.consolidate_after_minutes
        return {
            "consolidationPolicy": self.consolidation,
            "consolidateAfter": "Never" if after is None else f"{after}m",
            **({"budgets": [each.to_manifest() for each in self.budgets]} if self.budgets else {}),
        }

    def node_lifetime(self, *, longest_hours: int | None = None) -> dict[str, str]:
        """Return what a NodePool says of its nodes' end; at most ``longest_hours`` where something else ends them."""
        hours = [each for each in (self.expire_after_hours, longest_hours) if each is not None]
        found = {"expireAfter": f"{min(hours)}h" if hours else "Never"}
        if self.termination_grace_minutes is not None:
            found["terminationGracePeriod"] = f"{self.termination_grace_minutes}m"
        return found


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
        refuse_unless_choice(who, "condition", self.condition, get_args(NodeCondition))
        refuse_unless_choice(who, "action", self.action, get_args(Action))
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
