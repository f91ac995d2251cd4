"""Cluster autoscaler: whether it runs, which groups it takes, and what it may add."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.facts.charts import PRIORITY_EXPANDER
from gpu_constructs.facts.hardware.catalogue import catalogue
from gpu_constructs.facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_constructs.facts.quantities import GIB, MIB
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.pools import group_tags
from gpu_constructs.preflight.model.cluster import Autoscaler, Cluster, Pool
from gpu_constructs.preflight.node.nodes import gpu_types, minor
from gpu_constructs.preflight.reading.documents import UnusableInput, parse
from gpu_constructs.preflight.reading.unknown import Unknown, dig, is_true, items, known_number
from gpu_constructs.preflight.rules.rule import Problem, rule

_README = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_DISCOVERY = "node-group-auto-discovery"
# What EC2 sold later than the list that is built in, of 2026-01-22, and one that it leaves out.
# Source: kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go
_NOT_BUILT_IN = ("g7.", "p5e.", "p6-b300.", "p6e-gb200.")


def _found(cluster: Cluster) -> Autoscaler | None:
    return cluster.autoscaler("cluster-autoscaler")


def _scaled(case: Case) -> Iterator[Pool]:
    """Yield the GPU groups that may grow and shrink."""
    for pool in case.gpu_pools:
        known = pool.is_group and pool.max_nodes is not None and pool.min_nodes is not None
        if known and (pool.min_nodes or 0) < (pool.max_nodes or 0):
            yield pool


@rule("GPU150", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/autoscaling.html")
def group_that_may_grow_without_an_autoscaler(case: Case) -> Iterator[Problem]:
    """Group that may grow, and no autoscaler.

    Minimum and maximum are bounds only: without an autoscaler the group keeps the nodes that it starts with.

    Fix: Install cluster autoscaler, or let Karpenter or Auto Mode make the GPU nodes.
    """
    cluster = case.cluster
    if _found(cluster) or not cluster.sees_software:
        return
    for pool in _scaled(case):
        bounds = f"from {pool.min_nodes} to {pool.max_nodes} nodes"
        yield Problem.of(pool, f"may have {bounds}, and nothing here changes their number")


def _tags(autoscaler: Autoscaler) -> list[dict[str, str]]:
    """Return the tags that each use of the flag demands."""
    text = str(autoscaler.flags.get(_DISCOVERY) or "")
    specs = re.findall(r"asg:tag=(\S+)", text)
    return [dict(pair.partition("=")[::2] for pair in each.split(",") if pair) for each in specs]


def _named(tags: dict[str, str]) -> list[str]:
    names = [
        key.removeprefix(AUTOSCALED_BY_TAG)
        for key in tags
        if key.startswith(AUTOSCALED_BY_TAG) and key != AUTOSCALED_TAG
    ]
    return [each for each in names if not each.startswith("node-template")]


@rule("GPU151", "error", source=_README)
def group_that_cluster_autoscaler_does_not_discover(case: Case) -> Iterator[Problem]:
    """Group that cluster autoscaler does not discover.

    It takes only groups that carry every tag of its flag, and never makes a node in others.

    Fix: Tag the group, and name this cluster in --node-group-auto-discovery.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None or "nodes" in autoscaler.flags:
        return
    for tags in _tags(autoscaler):
        for name in _named(tags):
            if _is_other(name, cluster):
                text = f"cluster autoscaler looks for groups of cluster {name}, this one is {cluster.name}"
                yield Problem(autoscaler, text)
        for pool in case.gpu_pools:
            lacking = [each for each in tags if pool.kind == "self-managed" and _lacks(pool, each, tags[each])]
            if lacking and not any("${" in each for each in (*lacking, *group_tags(pool.properties))):
                text = f"cluster autoscaler looks for tag {', '.join(lacking)}, which it does not carry"
                yield Problem.of(pool, text)


def _is_other(name: str, cluster: Cluster) -> bool:
    own = (cluster.name, cluster.resource.ref().expression if cluster.resource else cluster.name)
    return cluster.whole and "${" not in name and "${" not in cluster.name and name not in own and _is_literal(cluster)


def _is_literal(cluster: Cluster) -> bool:
    """Whether the cluster's name is written in the template."""
    properties = cluster.resource.properties if cluster.resource else {}
    return cluster.name in (properties.get("Name"), dig(properties, "Config", "name"))


def _lacks(pool: Pool, key: str, value: str) -> bool:
    tags = group_tags(pool.properties)
    have = tags.get(key)
    return key not in tags or (bool(value) and not isinstance(have, Unknown) and str(have) != value)


@rule("GPU152", "warning", source=_README)
def discovery_flag_given_twice(case: Case) -> Iterator[Problem]:
    """Discovery flag given twice.

    Cluster autoscaler takes only the groups that carry the tags of both, which is often none.

    Fix: Give the flag once, as asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/<cluster>.
    """
    autoscaler = _found(case.cluster)
    specs = _tags(autoscaler) if autoscaler else []
    if autoscaler is not None and len(specs) > 1:
        text = f"cluster autoscaler is given --{_DISCOVERY} {len(specs)} times, and a group must match all of them"
        yield Problem(autoscaler, text)


@rule("GPU153", "warning", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/README.md")
def cluster_autoscaler_of_another_minor_version(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler of another minor version.

    It simulates the scheduler of its own Kubernetes version and watches that version's APIs.

    Fix: Use the image whose minor version equals the cluster's.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None or autoscaler.version is None or cluster.version is None:
        return
    runs, wanted = minor(autoscaler.version), minor(cluster.version)
    if (0, 0) not in (runs, wanted) and runs != wanted:
        text = f"cluster autoscaler {autoscaler.version} in a cluster of Kubernetes {cluster.version}"
        yield Problem(autoscaler, text)


@rule(
    "GPU162", "error", source="kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go"
)
def instance_type_that_the_built_in_list_does_not_have(case: Case) -> Iterator[Problem]:
    """Instance type that the built-in list does not have.

    With --aws-use-static-instance-list a group of a type that is not listed is left out.

    Fix: Drop the flag and allow ec2:DescribeInstanceTypes.
    """
    autoscaler = _found(case.cluster)
    if autoscaler is None or not is_true(autoscaler.flags.get("aws-use-static-instance-list")):
        return
    for pool in case.gpu_pools:
        missing = [each for each in pool.instance_types if pool.is_group and each.startswith(_NOT_BUILT_IN)]
        if missing:
            text = f"the list built into cluster autoscaler lacks {', '.join(missing)}"
            yield Problem.of(pool, text, unknown=autoscaler.version is None or minor(autoscaler.version) > (1, 36))


@rule("GPU164", "error", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def limits_of_cluster_autoscaler_below_one_gpu_node(case: Case) -> Iterator[Problem]:
    """Limits of cluster autoscaler below one GPU node.

    It makes no node that would exceed its own limits, whatever the group's maximum is.

    Fix: Raise --max-nodes-total, --cores-total or --memory-total.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None:
        return
    for pool in _scaled(case):
        for flag, needed, most, unit in _against(autoscaler, cluster, pool):
            if needed > most:
                text = f"--{flag} allows {most} {unit}, a first node takes it to {needed}"
                yield Problem.of(pool, text)


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


@rule(
    "GPU167",
    "warning",
    source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/expander/priority/readme.md",
)
def priority_expander_without_priorities(case: Case) -> Iterator[Problem]:
    """Priority expander without priorities.

    Without its ConfigMap the expander chooses at random, an expensive group as well as a cheap one.

    Fix: Create ConfigMap cluster-autoscaler-priority-expander with key priorities beside cluster autoscaler.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    chosen = str(autoscaler.flags.get("expander", "")).split(",") if autoscaler else []
    charted = autoscaler is not None and any(each.origin == autoscaler.origin for each in cluster.charts)
    if autoscaler is None or "priority" not in chosen or charted or not cluster.sees_software:
        return
    space = str(autoscaler.flags.get("namespace") or autoscaler.service_account[0])
    maps = [each for each in cluster.of_kind("ConfigMap") if (each.namespace, each.name) == (space, PRIORITY_EXPANDER)]
    if not maps:
        text = f"cluster autoscaler is told to use priorities, and ConfigMap {space}/{PRIORITY_EXPANDER} does not exist"
        yield Problem(autoscaler, text)
    for each in maps:
        if not _has_priorities(dig(each.content, "data", "priorities")):
            text = f"ConfigMap {space}/{PRIORITY_EXPANDER}: key priorities holds no list of patterns for each number"
            yield Problem(each, text)


def _has_priorities(text: object) -> bool:
    if not isinstance(text, str):
        return isinstance(text, Unknown)
    try:
        found = next((each.content for each in parse("priorities", text)), None)
    except UnusableInput:
        return False
    return isinstance(found, dict) and all(known_number(key) is not None and items(found[key]) for key in found)


_RUNTIME = "it is a state of the running cluster, which no template and no manifest tells"
