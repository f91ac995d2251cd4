"""Cluster autoscaler: whether it runs, which groups it takes, and what it may add."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.documents import UnusableInput, parse
from gpu_constructs.preflight.model import Autoscaler, Cluster, Pool
from gpu_constructs.preflight.nodes import gpu_types, minor
from gpu_constructs.preflight.pools import group_tags
from gpu_constructs.preflight.quantity import GIB, MIB
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, dig, is_true, items, known_number

_README = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_DISCOVERY = "node-group-auto-discovery"
_ENABLED, _OWNED = "k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/"
_EXPANDER_MAP = "cluster-autoscaler-priority-expander"
# What EC2 sold later than the list that is built in, of 2026-01-22, and one that it leaves out.
# Source: kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go
_NOT_BUILT_IN = ("g7.", "p5e.", "p6-b300.", "p6e-gb200.")


def _found(cluster: Cluster) -> Autoscaler | None:
    return cluster.autoscaler("cluster-autoscaler")


def _scaled(cluster: Cluster) -> Iterator[Pool]:
    """Yield the GPU groups that may grow and shrink."""
    for pool in cluster.gpu_pools:
        known = pool.is_group and pool.max_nodes is not None and pool.min_nodes is not None
        if known and (pool.min_nodes or 0) < (pool.max_nodes or 0):
            yield pool


def _missing(cluster: Cluster) -> Iterator[Problem]:
    if _found(cluster) or not cluster.sees_software:
        return
    for pool in _scaled(cluster):
        bounds = f"from {pool.min_nodes} to {pool.max_nodes} nodes"
        yield Problem(pool.origin, f"pool {pool.name}: may have {bounds}, and nothing here changes their number")


def _tags(autoscaler: Autoscaler) -> list[dict[str, str]]:
    """Return the tags that each use of the flag demands."""
    text = str(autoscaler.flags.get(_DISCOVERY) or "")
    specs = re.findall(r"asg:tag=(\S+)", text)
    return [dict(pair.partition("=")[::2] for pair in each.split(",") if pair) for each in specs]


def _named(tags: dict[str, str]) -> list[str]:
    names = [key.removeprefix(_OWNED) for key in tags if key.startswith(_OWNED) and key != _ENABLED]
    return [each for each in names if not each.startswith("node-template")]


def _undiscovered(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    if autoscaler is None or "nodes" in autoscaler.flags:
        return
    for tags in _tags(autoscaler):
        for name in _named(tags):
            if _is_other(name, cluster):
                text = f"cluster autoscaler looks for groups of cluster {name}, this one is {cluster.name}"
                yield Problem(autoscaler.origin, text)
        for pool in cluster.gpu_pools:
            lacking = [each for each in tags if pool.kind == "self-managed" and _lacks(pool, each, tags[each])]
            if lacking and not any("${" in each for each in (*lacking, *group_tags(pool.properties))):
                text = (
                    f"pool {pool.name}: cluster autoscaler looks for tag {', '.join(lacking)}, which it does not carry"
                )
                yield Problem(pool.origin, text)


def _is_other(name: str, cluster: Cluster) -> bool:
    own = (cluster.name, cluster.resource.ref().expression if cluster.resource else cluster.name)
    return cluster.whole and "${" not in name and "${" not in cluster.name and name not in own and _is_literal(cluster)


def _is_literal(cluster: Cluster) -> bool:
    """Whether the cluster's name is written in the template."""
    properties = cluster.resource.properties if cluster.resource else {}
    return cluster.name in (properties.get("Name"), dig(dict(properties), "Config", "name"))


def _lacks(pool: Pool, key: str, value: str) -> bool:
    tags = group_tags(pool.properties)
    have = tags.get(key)
    return key not in tags or (bool(value) and not isinstance(have, Unknown) and str(have) != value)


def _repeated(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    specs = _tags(autoscaler) if autoscaler else []
    if autoscaler is not None and len(specs) > 1:
        text = f"cluster autoscaler is given --{_DISCOVERY} {len(specs)} times, and a group must match all of them"
        yield Problem(autoscaler.origin, text)


def _skew(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    if autoscaler is None or autoscaler.version is None or cluster.version is None:
        return
    runs, wanted = minor(autoscaler.version), minor(cluster.version)
    if (0, 0) not in (runs, wanted) and runs != wanted:
        text = f"cluster autoscaler {autoscaler.version} in a cluster of Kubernetes {cluster.version}"
        yield Problem(autoscaler.origin, text)


def _built_in_list(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    if autoscaler is None or not is_true(autoscaler.flags.get("aws-use-static-instance-list")):
        return
    for pool in cluster.gpu_pools:
        missing = [each for each in pool.instance_types if pool.is_group and each.startswith(_NOT_BUILT_IN)]
        if missing:
            text = f"pool {pool.name}: the list built into cluster autoscaler lacks {', '.join(missing)}"
            yield Problem(pool.origin, text, unknown=autoscaler.version is None or minor(autoscaler.version) > (1, 36))


def _bounds(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    if autoscaler is None:
        return
    for pool in _scaled(cluster):
        for flag, needed, most, unit in _against(autoscaler, cluster, pool):
            if needed > most:
                text = f"pool {pool.name}: --{flag} allows {most} {unit}, a first node takes it to {needed}"
                yield Problem(pool.origin, text)


def _against(autoscaler: Autoscaler, cluster: Cluster, pool: Pool) -> Iterator[tuple[str, int, int, str]]:
    rows = [catalogue()[each] for each in gpu_types(pool)]
    cores = [row.vcpus for row in rows if row.vcpus is not None]
    sizes = [row.memory_mib * MIB // GIB for row in rows if row.memory_mib is not None]
    others = sum(each.min_nodes or 0 for each in cluster.pools if each.is_group)
    figures = (
        ("max-nodes-total", [others + 1], "nodes"),
        ("cores-total", cores, "cores"),
        ("memory-total", sizes, "GiB"),
    )
    if pool.min_nodes:
        return
    for flag, needed, unit in figures:
        most = known_number(str(autoscaler.flags.get(flag, "")).rpartition(":")[2])
        if most and needed:
            yield flag, min(needed), most, unit


def _expander(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = _found(cluster)
    chosen = str(autoscaler.flags.get("expander", "")).split(",") if autoscaler else []
    charted = autoscaler is not None and any(each.origin == autoscaler.origin for each in cluster.charts)
    if autoscaler is None or "priority" not in chosen or charted or not cluster.sees_software:
        return
    space = str(autoscaler.flags.get("namespace") or autoscaler.service_account[0])
    maps = [each for each in cluster.of_kind("ConfigMap") if (each.namespace, each.name) == (space, _EXPANDER_MAP)]
    if not maps:
        text = f"cluster autoscaler is told to use priorities, and ConfigMap {space}/{_EXPANDER_MAP} does not exist"
        yield Problem(autoscaler.origin, text)
    for each in maps:
        if not _has_priorities(dig(dict(each.content), "data", "priorities")):
            text = f"ConfigMap {space}/{_EXPANDER_MAP}: key priorities holds no list of patterns for each number"
            yield Problem(each.origin, text)


def _has_priorities(text: object) -> bool:
    if not isinstance(text, str):
        return isinstance(text, Unknown)
    try:
        found = next((each.content for each in parse("priorities", text)), None)
    except UnusableInput:
        return False
    return isinstance(found, dict) and all(known_number(key) is not None and items(found[key]) for key in found)


RULES = (
    Rule(
        id="GPU150",
        severity="warning",
        title="Group that may grow, and no autoscaler",
        why="Minimum and maximum are bounds only: without an autoscaler the group keeps the nodes that it starts with.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/autoscaling.html",
        fix="Install cluster autoscaler, or let Karpenter or Auto Mode make the GPU nodes.",
        causes=("F1", "P021"),
        check=_missing,
    ),
    Rule(
        id="GPU151",
        severity="error",
        title="Group that cluster autoscaler does not discover",
        why="It takes only groups that carry every tag of its flag, and never makes a node in others.",
        source=_README,
        fix="Tag the group, and name this cluster in --node-group-auto-discovery.",
        causes=("F2",),
        check=_undiscovered,
    ),
    Rule(
        id="GPU152",
        severity="warning",
        title="Discovery flag given twice",
        why="Cluster autoscaler takes only the groups that carry the tags of both, which is often none.",
        source=_README,
        fix="Give the flag once, as asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/<cluster>.",
        causes=("F2",),
        check=_repeated,
    ),
    Rule(
        id="GPU153",
        severity="warning",
        title="Cluster autoscaler of another minor version",
        why="It simulates the scheduler of its own Kubernetes version and watches that version's APIs.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/README.md",
        fix="Use the image whose minor version equals the cluster's.",
        causes=("F3",),
        check=_skew,
    ),
    Rule(
        id="GPU162",
        severity="error",
        title="Instance type that the built-in list does not have",
        why="With --aws-use-static-instance-list a group of a type that is not listed is left out.",
        source="kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go",
        fix="Drop the flag and allow ec2:DescribeInstanceTypes.",
        causes=("F11",),
        check=_built_in_list,
    ),
    Rule(
        id="GPU164",
        severity="error",
        title="Limits of cluster autoscaler below one GPU node",
        why="It makes no node that would exceed its own limits, whatever the group's maximum is.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md",
        fix="Raise --max-nodes-total, --cores-total or --memory-total.",
        causes=("F14",),
        check=_bounds,
    ),
    Rule(
        id="GPU167",
        severity="warning",
        title="Priority expander without priorities",
        why="Without its ConfigMap the expander chooses at random, an expensive group as well as a cheap one.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/expander/priority/readme.md",
        fix=f"Create ConfigMap {_EXPANDER_MAP} with key priorities beside cluster autoscaler.",
        causes=("F20",),
        check=_expander,
    ),
)

_RUNTIME = "it is a state of the running cluster, which no template and no manifest tells"
OUT_OF_REACH = (
    OutOfReach(
        "F15", "The group is in backoff after a failed launch", f"{_RUNTIME}: ConfigMap cluster-autoscaler-status"
    ),
    OutOfReach("F16", "Too many nodes are not ready, so that cluster autoscaler does nothing", _RUNTIME),
    OutOfReach(
        "F21",
        "A process of the Auto Scaling group is suspended",
        "CloudFormation suspends processes during updates only; needs autoscaling:DescribeAutoScalingGroups",
    ),
    OutOfReach(
        "F24",
        "Cluster autoscaler still expects the labels and taints that the group had before",
        "it is in the memory of the running process; it forgets them when restarted",
    ),
    OutOfReach("F26", "Somebody changed the Auto Scaling group by hand", "the template says what it was meant to be"),
)
