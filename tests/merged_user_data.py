"""The result of several NodeConfigs in one user data, without any construct: tests of the base install use it."""

from __future__ import annotations

from typing import NamedTuple


class Merged(NamedTuple):
    """The settings that nodeadm and kubelet get from several NodeConfigs in one user data.

    Attributes:
        kubelet: ``spec.kubelet`` of each part, in their order.
        labels: The labels of the node.
        taints: Key and effect of its taints.
        max_pods: ``maxPods`` of kubelet.
    """

    kubelet: tuple[dict[str, object], ...]
    labels: dict[str, str]
    taints: tuple[tuple[str, str], ...] = ()
    max_pods: int | None = None


_LISTED = {"registerWithTaints": [{"key": "c", "effect": "NoSchedule"}]}
# Nodeadm appends flags and replaces every other list. Kubelet adds up labels, uses the last flag of taints, and
# prefers a flag to its configuration.
# Sources: awslabs/amazon-eks-ami nodeadm/internal/api/merge.go, kubernetes/kubernetes v1.36.3 pkg/util/flag/flags.go
# (read 2026-11-23)
MERGED: dict[str, Merged] = {
    "labels add up": Merged(({"flags": ["--node-labels=a=1"]}, {"flags": ["--node-labels=b=2"]}), {"a": "1", "b": "2"}),
    "the later label": Merged(({"flags": ["--node-labels=a=1"]}, {"flags": ["--node-labels=a=2"]}), {"a": "2"}),
    "other flags keep labels": Merged(({"flags": ["--node-labels=a=1"]}, {"flags": ["--v=2"]}), {"a": "1"}),
    "the last taints": Merged(
        ({"flags": ["--register-with-taints=a:NoSchedule"]}, {"flags": ["--register-with-taints=b:NoExecute"]}),
        {},
        (("b", "NoExecute"),),
    ),
    "other flags keep taints": Merged(
        ({"flags": ["--register-with-taints=a:NoSchedule"]}, {"flags": ["--v=2"]}), {}, (("a", "NoSchedule"),)
    ),
    "taints of the configuration": Merged(({"config": _LISTED}, {"flags": ["--v=2"]}), {}, (("c", "NoSchedule"),)),
    "a flag before the configuration": Merged(
        ({"flags": ["--register-with-taints=a:NoSchedule"]}, {"config": _LISTED}), {}, (("a", "NoSchedule"),)
    ),
    "the later list of a configuration": Merged(({"config": _LISTED}, {"config": {"registerWithTaints": []}}), {}),
    "configurations in depth": Merged(
        ({"config": {"maxPods": 9}}, {"config": {"maxPods": 29}, "flags": ["--node-labels=a=1"]}),
        {"a": "1"},
        max_pods=29,
    ),
}
