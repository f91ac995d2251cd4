"""What cluster autoscaler does otherwise for one group than for all."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_facts.labels import OPTION_TAG
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_whole_number


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingOptions:
    """Options of one node group, in place of cluster autoscaler's flags. It reads these five and no others.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go

    Attributes:
        unneeded_minutes: How long a node must be unneeded before it is removed.
        unready_minutes: How long an unready node must be unneeded before it is removed.
        gpu_utilization: A node whose GPUs are requested to a smaller share than this is unneeded, 0 to 1.
        utilization: The same for vCPU and memory of a node that advertises no GPU, 0 to 1.
        ignore_daemonsets: Leave DaemonSets out of the utilization.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Cluster autoscaler would ignore a value, or none is given.
    """

    unneeded_minutes: int | None = None
    unready_minutes: int | None = None
    gpu_utilization: float | None = None
    utilization: float | None = None
    ignore_daemonsets: bool | None = None

    def __post_init__(self) -> None:
        who = "scaling options"
        for argument in ("unneeded_minutes", "unready_minutes"):
            if getattr(self, argument) is not None:
                refuse_unless_whole_number(who, argument, getattr(self, argument), least=0)
        for argument in ("gpu_utilization", "utilization"):
            share = getattr(self, argument)
            if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float))):
                raise TypeError(f"{who}: {argument} must be a number, got {share!r}")
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{who}: {argument} must be between 0 and 1, got {share}")
        if self.ignore_daemonsets is not None:
            refuse_unless_bool(who, "ignore_daemonsets", self.ignore_daemonsets)
        if not self.tags():
            raise ValueError(f"{who}: at least one option must be given, got none")

    def tags(self) -> dict[str, str]:
        """Return them as tags of the Auto Scaling group."""
        told = {
            "scaledownunneededtime": _minutes(self.unneeded_minutes),
            "scaledownunreadytime": _minutes(self.unready_minutes),
            "scaledowngpuutilizationthreshold": _number(self.gpu_utilization),
            "scaledownutilizationthreshold": _number(self.utilization),
            "ignoredaemonsetsutilization": None
            if self.ignore_daemonsets is None
            else str(self.ignore_daemonsets).lower(),
        }
        return {f"{OPTION_TAG}{key}": value for key, value in told.items() if value is not None}


def _minutes(number: int | None) -> str | None:
    return None if number is None else f"{number}m0s"


def _number(share: float | None) -> str | None:
    return None if share is None else str(share)
