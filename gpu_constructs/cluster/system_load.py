"""How many system nodes hold the controllers that an app installs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import aws_cdk as cdk
import constructs
import jsii

from gpu_constructs.installing import claims
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.managed.desired_size import NodeGroup, ScalingGroup
from gpu_facts import labels
from gpu_facts.hardware.cpu_types import allocatable_without_gpus
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import add, pod_requests, quantity, resources, show
from gpu_facts.resources import GPU
from gpu_facts.software.daemon_sets import daemon_sets_of_addon, daemon_sets_of_chart
from gpu_facts.software.model import DaemonSetSpec
from gpu_facts.software.system_pods import (
    RESOURCES,
    SystemPods,
    controller_pods,
    nodes_at_least,
    nodes_in_any_order,
    requested,
)

MIN_NODES = 2
MAX_NODES = 4
_NODES = ("AWS::EKS::Nodegroup", "AWS::EKS::FargateProfile", "AWS::AutoScaling::AutoScalingGroup")
_ON_EVERY_NODE = (labels.OS, labels.ARCH)
_MAX_LISTED = 5


@named_arguments
@jsii.implements(constructs.IValidation)
class SystemLoad:
    """The controllers of a cluster, and the sizes of its system nodes, known when every construct is defined.

    Controllers of charts whose requests aren't known, and of charts that another app installs, count as nothing.

    Args:
        cluster: The cluster.
        path: Path of the construct with ``system_nodes``.
        instance_types: Types of the nodes.
        min_nodes: Min nodes as set; ``None`` to compute them.
        max_nodes: Max nodes as set; ``None`` to compute them.
    """

    def __init__(
        self,
        cluster: ClusterRef,
        *,
        path: str,
        instance_types: Sequence[str],
        min_nodes: int | None,
        max_nodes: int | None,
    ) -> None:
        self._cluster, self._path, self._types = cluster, path, tuple(instance_types)
        self._min, self._max = min_nodes, max_nodes

    @property
    def min_nodes(self) -> int:
        """Nodes that always run: those that hold all controllers, unless cluster autoscaler launches more nodes."""
        if self._min is not None:
            return self._min
        wanted = MIN_NODES if self._grows else max(MIN_NODES, self._enough)
        return wanted if self._max is None else min(wanted, self._max)

    @property
    def max_nodes(self) -> int:
        """Max nodes."""
        if self._max is not None:
            return self._max
        return max(MAX_NODES, self.min_nodes, self._enough if self._grows else 0)

    def late(self, size: Literal["min_nodes", "max_nodes"]) -> int:
        """Return a size as a number that is resolved at synth."""
        return cast("int", cdk.Lazy.number(_Late(partial(getattr, self, size))))

    def validate(self) -> list[str]:
        """Return that some controllers stay Pending, where they do however kube-scheduler places them."""
        pods, free = self._pods, self._free(largest=True)
        nodes = self.max_nodes if self._grows else self.min_nodes
        argument = "max_nodes" if self._grows or self._min is None else "min_nodes"
        needed = nodes_at_least(pods, free)
        if (needed is not None and needed <= nodes) or self._runs_elsewhere:
            return []
        fix = "leave min_nodes and max_nodes out, or choose larger instance_types"
        must = f"{argument} must be at least {needed}, got {nodes}"
        if needed is None:
            fix = "choose larger instance_types"
            must = f"instance_types must be large enough for each pod, got {', '.join(self._types)}"
        return [
            f"{self._path}: system_nodes.{must}; the controllers of this app request {self._amounts(pods)}, and each "
            f"node has {' and '.join(f'{show(each, amount)} {each}' for each, amount in free.items())} for them; "
            f"{fix} [GPU481]"
        ]

    def _amounts(self, pods: Sequence[SystemPods]) -> str:
        totals = {each.name: requested([each], "cpu") for each in pods}
        largest = sorted(totals, key=lambda name: -totals[name])[:_MAX_LISTED]
        listed = ", ".join(f"{name} {show('cpu', totals[name])}" for name in largest)
        sums = [f"{show(each, requested(pods, each))} {each}" for each in RESOURCES]
        return f"{sums[0]} ({listed}{', ...' if len(totals) > _MAX_LISTED else ''}) and {sums[1]}"

    @property
    def _grows(self) -> bool:
        return self._cluster.holder(claims.CLUSTER_AUTOSCALER) is not None

    @property
    def _enough(self) -> int:
        return nodes_in_any_order(self._pods, self._free(largest=False)) or 0

    @property
    def _pods(self) -> list[SystemPods]:
        software = self._cluster.software
        found: list[SystemPods] = []
        for name, (_, values) in software.charts.items():
            found += controller_pods(name, values) or ()
        for name, configuration in software.addons.items():
            found += controller_pods(name, configuration) or ()
        return [*found, *(each for manifest in software.services for each in _of_service(manifest))]

    def _free(self, *, largest: bool) -> dict[str, int]:
        """Return what a node has for controllers, where its types are known: of several, the largest or smallest."""
        ends = [allocatable_without_gpus(each)[largest] for each in self._types]
        taken = add(*(resources(each.requests) for each in self._daemon_sets() if _runs_on_every_node(each)))
        choose = max if largest else min
        known = [each for each in RESOURCES if all(each in end for end in ends)]
        return {each: max(choose(end[each] for end in ends) - taken.get(each, 0), 0) for each in known}

    def _daemon_sets(self) -> Iterator[DaemonSetSpec]:
        software = self._cluster.software
        for name, (version, values) in software.charts.items():
            yield from daemon_sets_of_chart(name, version, values) or ()
        for name, configuration in software.addons.items():
            yield from daemon_sets_of_addon(name, None, configuration) or ()

    @property
    def _runs_elsewhere(self) -> bool:
        """Whether the app has nodes without the taint of GPUs that this library didn't make, or pools without it."""
        if self._cluster.software.runs_any_pod:
            return True
        others = (each for each in self._cluster.node.root.node.find_all() if cdk.CfnResource.is_cfn_resource(each))
        return any(
            getattr(each, "cfn_resource_type", None) in _NODES and not isinstance(each, (NodeGroup, ScalingGroup))
            for each in others
        )


@jsii.implements(cdk.IStableNumberProducer)
class _Late:
    """A number that the CDK asks for when it synthesizes."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number

    def produce(self) -> int:
        """Return the number."""
        return self._number()


def _of_service(manifest: Mapping[str, Any]) -> Iterator[SystemPods]:
    """Yield the pods of a Deployment or StatefulSet, if they need a node without GPUs."""
    spec = manifest["spec"]
    pod = spec["template"]["spec"]
    wanted = pod_requests(pod)
    if not pod.get("tolerations") and GPU not in wanted:
        requests = {each: wanted.get(each, 0) for each in RESOURCES}
        yield SystemPods(manifest["metadata"]["name"], quantity("pods", spec.get("replicas", 1)) or 0, requests)


def _runs_on_every_node(daemon: DaemonSetSpec) -> bool:
    """Whether a DaemonSet selects no label that only some nodes have."""
    terms = [each.get("matchExpressions") or () for each in daemon.node_affinity]
    selects = (
        any(one["operator"] in ("In", "Exists") and one["key"] not in _ON_EVERY_NODE for one in each) for each in terms
    )
    return daemon.node_selector.keys() <= set(_ON_EVERY_NODE) and not (terms and all(selects))
