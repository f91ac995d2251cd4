"""Removal and replacement of nodes: disruption of Karpenter, and node repair of EKS."""

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
    """Max number of nodes of a pool that Karpenter may disrupt at once, always or during a schedule.

    Attributes:
        nodes: A number of nodes, ``"0"``, or a percentage, ``"10%"``.
        reasons: Reasons that it applies to. ``Unhealthy`` limits the repair of broken nodes, with Karpenter 1.15 and
            ``node_repair``. Default: every reason.
        schedule: Cron expression of its start, in UTC. Default: it always applies.
        minutes: Duration from its start, in minutes. It needs ``schedule``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter would reject it.
    """

    nodes: str
    reasons: Sequence[Reason] = ()
    schedule: str | None = None
    minutes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, str) or not _NODES.fullmatch(self.nodes):
            raise ValueError(
                f"budget: nodes must be a number or a percentage, got {self.nodes!r}; write one such as '0' or '10%'"
            )
        object.__setattr__(self, "reasons", words("budget", "reasons", self.reasons))
        for reason in self.reasons:
            refuse_unless_choice("budget", "reasons", reason, get_args(Reason))
        if (self.schedule is None) != (self.minutes is None):
            got = f"{self.schedule!r} and {self.minutes!r}"
            raise ValueError(f"budget: schedule and minutes must be given together, got {got}; set both, or none")
        if self.minutes is not None:
            refuse_unless_whole_number("budget", "minutes", self.minutes, least=1)
        if self.schedule is not None and not (isinstance(self.schedule, str) and _CRON.fullmatch(self.schedule)):
            raise ValueError(
                f"budget: schedule must be a cron expression, got {self.schedule!r}; write one such as '0 8 * * 1-5'"
            )

    def to_manifest(self) -> dict[str, Any]:
        """Return it in the form of a NodePool."""
        found: dict[str, Any] = {"nodes": self.nodes}
        if self.reasons:
            found["reasons"] = list(self.reasons)
        if self.schedule is not None:
            found |= {"schedule": self.schedule, "duration": f"{self.minutes}m"}
        return found


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Disruption:
    """Rules for the removal and replacement of nodes.

    Attributes:
        consolidation: ``WhenEmpty`` removes only empty nodes. ``WhenEmptyOrUnderutilized`` also moves pods to fewer
            nodes. ``Balanced`` does so only if the savings exceed the disruption.
        consolidate_after_minutes: Time without pod changes on a node before its removal. Default: ``None``, never.
        budgets: Max numbers of nodes that Karpenter may disrupt at once.
        expire_after_hours: Age at which a node is drained, independent of the budgets. Default: ``None``, never.
        termination_grace_minutes: Max time to drain a node. After it, Karpenter deletes the pods, even pods that must
            not be disrupted. Default: ``None``, no limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter would reject it.
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
            raise TypeError(
                f"{who}: budgets must be a tuple of Budget, got {self.budgets!r}; write (Budget(nodes='1'),)"
            )
        if len(self.budgets) > _MAX_BUDGETS:
            raise ValueError(f"{who}: budgets must be at most {_MAX_BUDGETS}, got {len(self.budgets)}; merge some")
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
        """Whether a budget limits the repair of broken nodes, which only Karpenter 1.15 supports."""
        return any("Unhealthy" in each.reasons for each in self.budgets)

    def with_repair(self) -> Disruption:
        """Return the profile with one repair at a time. Without a budget Karpenter repairs all broken nodes at once."""
        return replace(self, budgets=(*self.budgets, Budget(nodes="1", reasons=("Unhealthy",))))

    @classmethod
    def suited_to(cls, purpose: str | None, *, static: bool) -> Disruption:
        """Return the profile for the nodes' workload. Without a purpose, it is the profile that never moves a pod."""
        if static:
            return cls.static()
        return cls.inference() if purpose == "inference" else cls.training()

    @classmethod
    def training(cls) -> Disruption:
        """Return the profile for runs that must not be interrupted. Consolidation removes only empty nodes."""
        stays = Budget(nodes="0", reasons=("Drifted", "Underutilized"))
        return cls(
            consolidation="WhenEmpty",
            consolidate_after_minutes=10,
            budgets=(Budget(nodes="100%", reasons=("Empty",)), stays),
        )

    @classmethod
    def inference(cls) -> Disruption:
        """Return the profile for replicas that may move one by one, to fewer nodes and to nodes with new images."""
        few = Budget(nodes="10%", reasons=("Drifted", "Underutilized"))
        return cls(
            consolidation="WhenEmptyOrUnderutilized",
            # A model takes minutes to load, and traffic drops for minutes.
            consolidate_after_minutes=30,
            budgets=(Budget(nodes="100%", reasons=("Empty",)), few),
        )

    @classmethod
    def static(cls) -> Disruption:
        """Return the profile for a fixed number of nodes, which are never empty: one node at a time gets a new image.

        A pod that must not be disrupted prevents the replacement of its node.
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
        """Return the fields of a NodePool for its nodes' lifetime, limited to ``longest_hours`` if you pass it."""
        hours = [each for each in (self.expire_after_hours, longest_hours) if each is not None]
        found = {"expireAfter": f"{min(hours)}h" if hours else "Never"}
        if self.termination_grace_minutes is not None:
            found["terminationGracePeriod"] = f"{self.termination_grace_minutes}m"
        return found


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class RepairOverride:
    """Repair action for one reason, in place of EKS' own choice. EKS requires all four values.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfigOverrides.html

    Attributes:
        condition: Condition of the node, e.g. ``AcceleratedHardwareReady``.
        reason: Reason that the agent reports, e.g. ``NvidiaXID64Error``.
        wait_minutes: Time between the condition and the action, in minutes.
        action: ``Replace``, ``Reboot`` or ``NoAction``.

    Raises:
        TypeError: ``wait_minutes`` isn't an integer.
        ValueError: EKS would reject it or never apply it.
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
            raise ValueError(
                f"{who}: reason must be one word, got {self.reason!r}; write one such as 'NvidiaXID64Error'"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRepair:
    """Repair of a managed node group's nodes. The add-on ``eks-node-monitoring-agent`` detects the faults.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html

    Attributes:
        enabled: Whether EKS repairs nodes.
        max_unhealthy: Max unhealthy nodes, a number or a percentage such as ``"20%"``. With more, EKS repairs none.
            Default: EKS', 20 % of more than five nodes.
        max_parallel: Max repairs at once, a number or a percentage of the unhealthy nodes. Default: EKS'.
        overrides: Actions for single reasons.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would reject it.
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
            raise TypeError(
                f"{who}: overrides must be a tuple of RepairOverride, got {self.overrides!r}; write "
                "(RepairOverride(...),)"
            )
        object.__setattr__(self, "overrides", tuple(self.overrides))
        if len({(each.condition, each.reason) for each in self.overrides}) < len(self.overrides):
            raise ValueError(f"{who}: overrides must differ in condition or reason, got one twice; remove it")

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
            raise ValueError(
                f"{who}: {argument} must be a number or a percentage, got {amount!r}; write one such as '20%'"
            )
        refuse_unless_whole_number(who, argument, amount, least=1)


def _amount(name: str, amount: int | str | None) -> dict[str, int]:
    if amount is None:
        return {}
    if isinstance(amount, str):
        return {f"{name}Percentage": int(amount[:-1])}
    return {f"{name}Count": amount}
