"""Values of a ClusterConfig that eksctl refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.reading.eksctl.groups import taints_of
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import dig, is_expression, known_text, mappings
from gpu_constructs.preflight.rules.rule import Problem, rule
from gpu_constructs.refusals import did_you_mean

# Source: eksctl-io/eksctl 99984ad (2026-08-21) pkg/utils/taints/taints.go ``validateTaintEffect``
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Source: aws/aws-sdk-go-v2 service/ec2/types/enums.go ``SpotAllocationStrategy`` (2026-08), which eksctl compares with
_STRATEGIES = (
    *("lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized"),
    "price-capacity-optimized",
)


@rule("GPU461", "error", source="eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go")
def value_that_eksctl_refuses(case: Case) -> Iterator[Problem]:
    """Value that eksctl refuses.

    It reads the whole config before it begins, so that it makes nothing of it.

    Fix: Correct the value as the message says.
    """
    cluster = case.cluster
    # Files of other clusters stand beside each of them.
    own = [each for each in cluster.of_kind("ClusterConfig") if each.name == cluster.name]
    refused = [(config, text) for config in own for text in _of_groups(config)]
    yield from (Problem(part, text) for config, text in refused for part in cluster.parts_of(config))


def _of_groups(config: Object) -> Iterator[str]:
    for kind in ("managedNodeGroups", "nodeGroups"):
        for group in mappings(config.content.get(kind)):
            yield from (f"{kind} {known_text(group.get('name')) or ''}: {text}" for text in _refused(group))


def _refused(group: dict[str, Any]) -> Iterator[str]:
    for taint in taints_of(group):
        yield from _of_none("taint effect", taint.get("effect") or "", _EFFECTS)
    strategy = dig(group, "instancesDistribution", "spotAllocationStrategy")
    if strategy is not None:
        yield from _of_none("spotAllocationStrategy", strategy, _STRATEGIES)


def _of_none(what: str, value: Any, known: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, str) and value not in known and not is_expression(value):
        yield f"{what} must be of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}"
