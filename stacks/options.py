"""Options of `GpuClusterStack`, readable from CDK context: cdk.json or ``-c key=value``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from gpu_constructs.cluster.system_nodes import SystemNodes
from gpu_constructs.installing.context import hint_of_a_bare_name, refuse_wrong_context
from gpu_constructs.pools.capacity import CAPACITIES, Capacity
from gpu_constructs.pools.disk import Disk
from gpu_constructs.pools.kubelet import checked_tags
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.refusals import did_you_mean, refuse_unless_choice, refuse_unless_whole_number, words
from gpu_facts.versions import DEFAULT_KUBERNETES, kubernetes_minor

Autoscaler = Literal["cluster-autoscaler", "karpenter"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolOptions:
    """One GPU pool, for either autoscaler.

    Attributes:
        name: Name of the pool.
        instance_types: EC2 names.
        max_nodes: Max number of nodes. With Karpenter, the limit is the number of GPUs of this many nodes of the
            largest type.
        min_nodes: Number of nodes that always run. It is supported only with cluster autoscaler.
        capacity: ``on-demand`` or ``spot``.
        operating_system: ``al2023`` or ``bottlerocket``.
        disk_gib: Volume for images and pods, in GiB.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: The pool is impossible.
    """

    name: str
    instance_types: Sequence[str]
    max_nodes: int = 4
    min_nodes: int = 0
    capacity: str = "on-demand"
    operating_system: OperatingSystem = "al2023"
    disk_gib: int = Disk().size_gib

    def __post_init__(self) -> None:
        refuse_unless_object_name("context key 'pools'", "name", self.name)
        who = f"pool {self.name!r}"
        object.__setattr__(self, "instance_types", words(who, "instance_types", self.instance_types))
        refuse_unless_choice(who, "capacity", self.capacity, CAPACITIES)
        refuse_unless_whole_number(who, "max_nodes", self.max_nodes, least=1, fix="delete the pool to switch it off")
        refuse_unless_whole_number(who, "min_nodes", self.min_nodes, least=0)
        if self.min_nodes > self.max_nodes:
            raise ValueError(
                f"{who}: min_nodes must be at most max_nodes, got {self.min_nodes} and {self.max_nodes}; lower it"
            )
        try:
            _ = self.shape
        except (TypeError, ValueError) as error:
            raise type(error)(f"{who}: {error}") from error

    @property
    def shape(self) -> NodeShape:
        """Hardware and software of its nodes."""
        return NodeShape(
            instance_types=self.instance_types,
            operating_system=self.operating_system,
            disk=Disk(size_gib=self.disk_gib),
        )

    @property
    def bought(self) -> Capacity:
        """Purchase option of the nodes."""
        return CAPACITIES[self.capacity]

    @property
    def max_gpus(self) -> int:
        """Max number of GPUs of the pool."""
        return self.max_nodes * max(each.gpus for each in self.shape.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuClusterOptions:
    """Options of the cluster that you can set without editing Python. Each attribute is a context key.

    Attributes:
        autoscaler: ``cluster-autoscaler`` or ``karpenter``.
        kubernetes_version: Minor version.
        cluster_name: Name. Default: the stack's name.
        pools: GPU pools.
        system_instance_types: EC2 types of the nodes without GPUs.
        availability_zones: Zones of the VPC. Default: two, chosen at deployment.
        nat_gateways: NAT gateways of the VPC.
        public_access_cidrs: CIDR blocks that may connect to the API endpoint from the internet, ``[]`` for none.
            Default: all addresses. Clients always need credentials.
        admins: ARNs of IAM users or roles that administer the cluster.
        smoke_test: Run nvidia-smi on the first pool after each change of it.
        tags: Tags of all resources in the stack that support tags, including nodes, their volumes and network
            interfaces, for cost allocation. Default: none.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value isn't supported.
    """

    autoscaler: Autoscaler = "cluster-autoscaler"
    kubernetes_version: str = DEFAULT_KUBERNETES
    cluster_name: str | None = None
    pools: tuple[PoolOptions, ...] = (PoolOptions(name="gpu", instance_types=("g6.xlarge",)),)
    system_instance_types: Sequence[str] = ("m6i.large",)
    availability_zones: Sequence[str] | None = None
    nat_gateways: int = 1
    public_access_cidrs: Sequence[str] | None = None
    admins: Sequence[str] = ()
    smoke_test: bool = False
    tags: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        refuse_unless_choice("context", "autoscaler", self.autoscaler, get_args(Autoscaler))
        kubernetes_minor(self.kubernetes_version, who="context")
        refuse_unless_whole_number("context", "nat_gateways", self.nat_gateways, least=0)
        _boolean("smoke_test", self.smoke_test)
        if self.tags is not None:
            checked_tags(self.tags, who="context")
        names = [pool.name for pool in self.pools]
        if not names:
            raise ValueError("context: pools must contain at least one pool, got none; add one")
        if len(set(names)) < len(names):
            raise ValueError(f"context: pools must differ in name, got {names}; rename one")
        for pool in self.pools:
            if self.autoscaler == "karpenter" and pool.min_nodes:
                raise ValueError(
                    f"pool {pool.name!r}: min_nodes must be 0 with autoscaler 'karpenter', got {pool.min_nodes}; "
                    "remove it, because Karpenter launches nodes only for pending pods"
                )
        try:
            _ = self.system_nodes
        except (TypeError, ValueError) as error:
            raise type(error)(f"context: system_instance_types: {error}") from error

    @property
    def system_nodes(self) -> SystemNodes:
        """The nodes without GPUs. Karpenter doesn't scale node groups, so their number is two."""
        smallest = SystemNodes(instance_types=self.system_instance_types)
        return replace(smallest, max_nodes=2) if self.autoscaler == "karpenter" else smallest


_OPTIONS = tuple(each.name for each in fields(GpuClusterOptions))
# Keys that the cdk CLI stores in cdk.context.json.
_OF_THE_CLI = ("acknowledged-issue-numbers", "cli-telemetry")
_POOL_OPTIONS = tuple(each.name for each in fields(PoolOptions))


def options_from_context(context: Mapping[str, Any]) -> GpuClusterOptions:
    """Read options from CDK context. It ignores keys of the CDK and other libraries, which contain ``:`` or ``/``.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key or value is unknown.
    """
    refuse_wrong_context(context)
    ours = {key: each for key, each in context.items() if not (":" in key or "/" in key or key in _OF_THE_CLI)}
    _refuse_unknown("context", ours, _OPTIONS)
    return GpuClusterOptions(**{key: _READ.get(key, _as_is)(key, value) for key, value in ours.items()})


def _refuse_unknown(who: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(key.replace("-", "_"), known) or hint_of_a_bare_name(key)
            raise ValueError(f"{who}: key must be one of {', '.join(known)}, got {key!r}{hint}")


def _as_is(_key: str, value: Any) -> Any:
    return value


def _json(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        kind = "an object" if key == "tags" else "a list"
        rule = f"context: {key} must be {kind} in JSON such as {_EXAMPLES.get(key, _SOME_NAMES)}"
        raise ValueError(f"{rule}, got {_quote_shortened(value)}, {_where(value, error.pos)}") from error


_SOME_NAMES = '["a", "b"]'
_EXAMPLES = {
    "pools": '[{"name": "l4", "instance_types": ["g6.xlarge"]}]',
    "system_instance_types": '["m6i.large"]',
    "availability_zones": '["us-east-1a", "us-east-1b"]',
    "public_access_cidrs": '["203.0.113.0/24"]',
    "admins": '["arn:aws:iam::111122223333:role/admin"]',
    "tags": '{"team": "research"}',
}
# Max number of characters of a value, and of the part that can't be parsed, in a message.
_MAX_QUOTED = 60


def _quote_shortened(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}...")


def _where(text: str, position: int) -> str:
    """Return the position at which a text stops being valid JSON."""
    rest = text[position:]
    if not rest.strip():
        return "which ends too early; is a bracket or a quote missing?"
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    place = f"character {column}" if line == 1 else f"line {line}, character {column}"
    quotes = "; JSON has double quotes" if rest.lstrip()[0] == "'" else ""
    return f"which isn't valid JSON from {place}: {_quote_shortened(rest)}{quotes}"


def _list(key: str, value: Any) -> Any:
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return tuple(each.strip() for each in value.split(","))
    return words("context", key, _json(key, value))


def _boolean(key: str, value: Any) -> bool:
    told = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(told, bool):
        raise TypeError(f"context: {key} must be true or false, got {value!r}; write one of them")
    return told


def _whole_number(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[+-]?\d+", value.strip()):
        raise TypeError(f"context: {key} must be a whole number, got {value!r}; write one such as 2")
    return int(value)


def _pools(key: str, value: Any) -> tuple[PoolOptions, ...]:
    entries = _json(key, value)
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise TypeError(
            f"context: {key} must be a list of objects with name and instance_types, got {value!r}; write a list"
        )
    return tuple(_pool(number, entry) for number, entry in enumerate(entries, start=1))


def _pool(number: int, entry: Mapping[str, Any]) -> PoolOptions:
    who = f"context: pool {entry.get('name', number)!r}"
    _refuse_unknown(who, entry, _POOL_OPTIONS)
    for needed in ("name", "instance_types"):
        if needed not in entry:
            raise ValueError(f"{who}: {needed} must be given, got {sorted(entry)}; add it")
    return PoolOptions(**entry)


_READ: dict[str, Callable[[str, Any], Any]] = {
    "pools": _pools,
    "system_instance_types": _list,
    "availability_zones": _list,
    "nat_gateways": _whole_number,
    "public_access_cidrs": _list,
    "admins": _list,
    "smoke_test": _boolean,
    "tags": _json,
}
