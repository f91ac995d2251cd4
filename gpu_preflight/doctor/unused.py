"""Nodes with GPUs, those that no pod requests and those that aren't usable, with their price."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import usd_per_hour
from gpu_facts.labels import INSTANCE_TYPE, NODE_GROUP, NODE_POOL, REGION
from gpu_facts.light import dataclass
from gpu_facts.resources import NVIDIA
from gpu_preflight.doctor.causes.health import repair_causes
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.removal import is_leaving, removal_blockers
from gpu_preflight.reading.objects import Object

# Their False or True status means that a GPU or the node has a fault.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-health.html (2026-11)
_HEALTHY_IF_TRUE = ("Ready", "AcceleratedHardwareReady", "KernelReady", "NetworkingReady", "StorageReady")


@dataclass(frozen=True, slots=True)
class UnusedGpus:
    """A node with GPUs, and how many no pod requests or aren't usable.

    Attributes:
        node: Its name.
        pool: Its NodePool or node group; empty if its labels name none.
        instance_type: Its EC2 type.
        idle: Allocatable GPUs that no pod requests.
        unusable: GPUs of the instance type that the node doesn't offer.
        usd_per_hour: On-demand list price of the node, US dollars an hour; ``None`` if it isn't known.
        why: Why it stays, or its bad conditions; empty if nothing is known.
    """

    node: str
    pool: str
    instance_type: str
    idle: int
    unusable: int
    usd_per_hour: float | None
    why: str


def unused_gpus(live: Live, names: Collection[str] | None = None) -> Iterator[UnusedGpus]:
    """Yield the nodes with idle or unusable GPUs, the most expensive first.

    Args:
        live: The cluster.
        names: Yield these nodes, if they have GPUs at all. Default: each node with idle or unusable GPUs.
    """
    nodes = live.nodes if names is None else [each for each in live.nodes if each.name in names]
    found = [each for each in map(partial(_unused, live, every=names is not None), nodes) if each is not None]
    yield from sorted(found, key=lambda each: -(each.usd_per_hour or 0))


def _unused(live: Live, node: Object, *, every: bool) -> UnusedGpus | None:
    row = catalogue().get(str(node.labels.get(INSTANCE_TYPE)))
    offered = sum(amount for name, amount in live.allocatable(node).items() if name.startswith(NVIDIA))
    if row is None and not offered:
        return None
    idle = sum(max(amount, 0) for name, amount in live.free(node).items() if name.startswith(NVIDIA))
    if live.certainty("Pod") is None:
        # Pods that aren't in the dump may request them.
        idle = 0
    missing = max(row.ec2_gpus - offered, 0) if row is not None else 0
    if missing and any(each.spec.get("nodeName") == node.name for each in live.objects("ResourceSlice")):
        # A DRA driver publishes its GPUs in slices, so the node doesn't offer them.
        missing = 0
    if not every and not idle and not missing and not is_leaving(live, node):
        return None
    region = str(node.labels.get(REGION) or "") or None
    return UnusedGpus(
        node=node.name,
        pool=str(node.labels.get(NODE_POOL) or node.labels.get(NODE_GROUP) or ""),
        instance_type=str(node.labels.get(INSTANCE_TYPE) or ""),
        idle=idle,
        unusable=missing,
        usd_per_hour=usd_per_hour(row, region) if row is not None else None,
        why="; ".join(_reasons(live, node)),
    )


def _reasons(live: Live, node: Object) -> Iterator[str]:
    bad = [each for each in live.conditions(node) if each.type in _HEALTHY_IF_TRUE and each.status != "True"]
    yield from (f"{each.type} is {each.status}: {each.reason or each.message}" for each in bad)
    if node.spec.get("unschedulable") is True:
        yield "cordoned"
    if bad:
        yield from (f"{each.id}: {each.message}" for each in repair_causes(live, node))
    if any(each.type == "Ready" for each in bad):
        return
    yield from removal_blockers(live, node)
