"""Rules for cluster autoscaler: whether it runs, its flags, and the groups and nodes that it can add.

Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/config/flags/flags.go
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import PRIORITY_EXPANDER
from gpu_facts.cluster_autoscaler_flags import EXPANDERS, FLAGS, FLAGS_VERSION, LAST_EXPANDER, PRICE_EXPANDER
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.node_capacity import least_vcpus
from gpu_facts.labels import ACCELERATOR, AUTOSCALED_BY_TAG, AUTOSCALED_TAG, LABEL_TAG
from gpu_facts.light import regex
from gpu_facts.quantities import GIB, MIB
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.pools import group_tags, has_open_tags
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.cluster_autoscaler import DISCOVERY, EXPLICIT, Named, discovery_tags, is_named, named_groups
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.node.nodes import gpu_types, minor, surely_launches
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_expression,
    is_true,
    items,
    known_number,
    known_text,
    mapping,
    may_equal,
)
from gpu_preflight.rule import Problem, rule

_README = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
# Families that EC2 added after the built-in list of 2026-01-22, and one that the list omits.
# Source: kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go
_NOT_BUILT_IN = ("g7.", "p5e.", "p6-b300.", "p6e-gb200.")
_FLAGS = "kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/config/flags/flags.go"
_STATIC_LIST = "aws-use-static-instance-list"
# Forms <min>:<max>, <label value>:<min>:<max> and <min>:<max>:<name>.
_RANGE = regex(r"(\d+):(\d+)")
_GPU_RANGE = regex(r"[^:]*:(\d+):(\d+)")
_GROUP = regex(r"(\d+):(\d+):.+")
_TAGS = regex(r"asg:tag=.+")
_FORMS = {
    "cores-total": (_RANGE, "<min>:<max>"),
    "memory-total": (_RANGE, "<min>:<max>"),
    "gpu-total": (_GPU_RANGE, "<label value>:<min>:<max>"),
    EXPLICIT: (_GROUP, "<min>:<max>:<name>"),
    DISCOVERY: (_TAGS, "asg:tag=<key>,<key>"),
}
_LISTS = ("gpu-total", EXPLICIT, DISCOVERY)
_BLANK = regex(r"<[^<>]*>")
_NAME = regex(r"[a-z][a-z0-9-]+")
# A name this close is a typo, not a flag of another version.
_CLOSENESS = 0.9


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
    """Group has a range of sizes but no autoscaler.

    Minimum and maximum are only bounds. Without an autoscaler, the group keeps its initial number of nodes.

    Fix: Install cluster autoscaler, or use Karpenter or EKS Auto Mode for the GPU nodes.
    """
    cluster = case.cluster
    if _found(cluster) or not cluster.shows_software:
        return
    for pool in _scaled(case):
        bounds = f"{pool.min_nodes} to {pool.max_nodes} nodes"
        text = f"it can have {bounds}, but no autoscaler in the input changes their number"
        yield Problem.from_subject(pool, text, unknown=not cluster.sees_programs, doubt=cluster.doubt)


def _named(tags: dict[str, str]) -> list[str]:
    names = [
        key.removeprefix(AUTOSCALED_BY_TAG)
        for key in tags
        if key.startswith(AUTOSCALED_BY_TAG) and key != AUTOSCALED_TAG
    ]
    return [each for each in names if not each.startswith("node-template")]


@rule("GPU151", "error", source=_README)
def group_that_cluster_autoscaler_does_not_discover(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler doesn't discover the group.

    It scales only groups that have every tag of its flag, and never creates a node in others.

    Fix: Add the tags of --node-group-auto-discovery to the Auto Scaling group.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None:
        return
    yield from _not_named(autoscaler, case)
    explicit = named_groups(autoscaler)
    for tags in discovery_tags(autoscaler):
        for name in _named(tags):
            if _is_other(name, cluster):
                text = f"cluster autoscaler looks for groups of cluster {name}, but its cluster is {cluster.name}"
                fix = f"Replace {name} with {cluster.name} in --{DISCOVERY}."
                yield Problem(autoscaler, text, fix)
        for pool in case.gpu_pools:
            lacking = [each for each in tags if pool.kind == "self-managed" and _lacks(pool, each, tags[each])]
            if lacking and is_named(pool, explicit) is not True:
                tags_lacking = f"tag{'s' if len(lacking) > 1 else ''} {' and '.join(lacking)}"
                text = f"cluster autoscaler looks for groups with {tags_lacking}, which the group doesn't have"
                added = " and ".join(f"{each}={tags[each] or 'true'}" for each in lacking)
                fix = f"Tag the Auto Scaling group with {added}."
                unknown = has_open_tags(pool.properties) or _may_be_named(pool, explicit)
                yield Problem.from_subject(pool, text, fix=fix, unknown=unknown)


def _may_be_named(pool: Pool, explicit: list[Named]) -> bool:
    return bool(explicit) and is_named(pool, explicit) is None


def _not_named(autoscaler: Autoscaler, case: Case) -> Iterator[Problem]:
    """Yield the groups that no tag discovers and no flag names."""
    named = named_groups(autoscaler)
    if not named or DISCOVERY in autoscaler.flags:
        return
    for pool in case.gpu_pools:
        answer = is_named(pool, named) if pool.is_group else True
        if answer is not True:
            shown = ", ".join(each.name for each in named)
            text = (
                f"cluster autoscaler scales only group {shown}: its flags name no other group and no tags for discovery"
            )
            least, most = ("<min>" if pool.min_nodes is None else pool.min_nodes), pool.max_nodes or "<max>"
            bounds = f"{least}:{most}"
            own = f"asg:tag={AUTOSCALED_TAG},{AUTOSCALED_BY_TAG}{case.cluster.written_name}"
            fix = f"Add flag --{EXPLICIT}={bounds}:<group>, or use --{DISCOVERY}={own} instead."
            yield Problem.from_subject(pool, text, fix=fix, unknown=answer is None)


def _is_other(name: str, cluster: Cluster) -> bool:
    own = (cluster.name, cluster.resource.ref().expression if cluster.resource else cluster.name)
    return cluster.whole and "${" not in name and "${" not in cluster.name and name not in own and _is_literal(cluster)


def _is_literal(cluster: Cluster) -> bool:
    """Whether the cluster's name is written in the template."""
    properties = cluster.resource.properties if cluster.resource else {}
    return cluster.name in (properties.get("Name"), dig(properties, "Config", "name"))


def _lacks(pool: Pool, key: str, value: str) -> bool:
    found = [have for name, have in group_tags(pool.properties).items() if may_equal(name, key)]
    return not any(not value or may_equal(str(have), value) for have in found)


@rule("GPU152", "warning", source=_README)
def discovery_flag_given_twice(case: Case) -> Iterator[Problem]:
    """Discovery flag is set twice.

    Cluster autoscaler scales only groups with the tags of both flags, which often matches no group.

    Fix: Set the flag once:
    --node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/<cluster>.
    """
    autoscaler = _found(case.cluster)
    specs = discovery_tags(autoscaler) if autoscaler else []
    if autoscaler is not None and len(specs) > 1:
        text = f"cluster autoscaler has --{DISCOVERY} {len(specs)} times, and a group must match all of them"
        own = f"asg:tag={AUTOSCALED_TAG},{AUTOSCALED_BY_TAG}{case.cluster.written_name}"
        yield Problem(autoscaler, text, f"Set the flag once: --{DISCOVERY}={own}.")


@rule("GPU153", "warning", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/README.md")
def cluster_autoscaler_of_another_minor_version(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler's version doesn't match the cluster's minor version.

    Cluster autoscaler simulates the scheduler of the Kubernetes version that it is built for, and watches its APIs.

    Fix: Use the image whose minor version equals the cluster's.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None or autoscaler.version is None or cluster.version is None:
        return
    runs, wanted = minor(autoscaler.version), minor(cluster.version)
    if (0, 0) not in (runs, wanted) and runs != wanted:
        text = f"cluster autoscaler {autoscaler.version} doesn't match Kubernetes {cluster.version} of the cluster"
        yield Problem(autoscaler, text, f"Use an image of cluster autoscaler {cluster.version}.")


@rule(
    "GPU162", "error", source="kubernetes/autoscaler 55c37cd cluster-autoscaler/cloudprovider/aws/ec2_instance_types.go"
)
def instance_type_that_the_built_in_list_does_not_have(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler's built-in list lacks the instance type.

    With --aws-use-static-instance-list, cluster autoscaler ignores groups of a type that isn't in the list.

    Fix: Remove --aws-use-static-instance-list and allow ec2:DescribeInstanceTypes in the policy of its role.
    """
    autoscaler = _found(case.cluster)
    if autoscaler is None or not is_true(autoscaler.flags.get(_STATIC_LIST)):
        return
    for pool in case.gpu_pools:
        missing = [each for each in pool.instance_types if pool.is_group and each.startswith(_NOT_BUILT_IN)]
        if missing:
            names = ", ".join(missing)
            text = (
                f"cluster autoscaler ignores the group: --{_STATIC_LIST} is true, and the built-in list lacks {names}"
            )
            newer = autoscaler.version is None or minor(autoscaler.version) > (1, 36)
            yield Problem.from_subject(pool, text, unknown=newer or not surely_launches(pool, missing))


@rule("GPU164", "error", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def limits_of_cluster_autoscaler_below_one_gpu_node(case: Case) -> Iterator[Problem]:
    """Limits of cluster autoscaler don't allow one GPU node.

    Cluster autoscaler creates no node that would exceed its own limits, independent of the group's maximum.

    Fix: Raise the limit in the flag.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    if autoscaler is None:
        return
    for pool in _scaled(case):
        for flag, needed, most, unit in _against(autoscaler, cluster, pool):
            if needed > most:
                text = f"cluster autoscaler's --{flag} allows {most} {unit}, but a first node needs {needed}"
                yield Problem.from_subject(pool, text, fix=f"Raise the maximum in --{flag} to {needed} or more.")


def _against(autoscaler: Autoscaler, cluster: Cluster, pool: Pool) -> Iterator[tuple[str, int, int, str]]:
    rows = [catalogue()[each] for each in gpu_types(pool)]
    cores = [row.vcpus for row in rows if row.vcpus is not None]
    sizes = [row.memory_mib * MIB // GIB for row in rows if row.memory_mib is not None]
    others = sum(each.min_nodes or 0 for each in cluster.pools if each.is_group)
    running = sum((each.min_nodes or 0) * _least_cores(each) for each in cluster.pools if each.is_group)
    figures = (
        ("max-nodes-total", [others + 1], "nodes"),
        ("cores-total", [running + each for each in cores], "cores"),
        ("memory-total", sizes, "GiB"),
    )
    if pool.min_nodes:
        return
    for flag, needed, unit in figures:
        most = known_number(str(autoscaler.flags.get(flag, "")).rpartition(":")[2])
        if most and needed:
            yield flag, min(needed), most, unit
    yield from _against_gpus(autoscaler, cluster, pool)


def _least_cores(pool: Pool) -> int:
    known = catalogue()
    return min(
        (known[each].vcpus or 0 if each in known else least_vcpus(each) for each in pool.instance_types), default=0
    )


def _against_gpus(autoscaler: Autoscaler, cluster: Cluster, pool: Pool) -> Iterator[tuple[str, int, int, str]]:
    """Yield the GPU limit of the pool's GPU type, which is the value of its accelerator label."""
    kind = _accelerator(pool)
    limits = [each.split(":") for each in str(autoscaler.flags.get("gpu-total") or "").split()]
    own = [each for each in limits if len(each) == 3 and each[0] == kind]
    running = sum((each.min_nodes or 0) * _least_gpus(each) for each in cluster.pools if _accelerator(each) == kind)
    for each in own if kind else ():
        most = known_number(each[2])
        if most is not None and _least_gpus(pool):
            yield "gpu-total", running + _least_gpus(pool), most, f"GPUs of {kind}"


def _accelerator(pool: Pool) -> str | None:
    """Return the label value that cluster autoscaler uses to count GPUs of an empty group."""
    if pool.kind == "self-managed":
        return known_text(group_tags(pool.properties).get(f"{LABEL_TAG}{ACCELERATOR}"))
    return known_text(mapping(pool.properties.get("Labels")).get(ACCELERATOR)) if pool.kind == "managed" else None


def _least_gpus(pool: Pool) -> int:
    return min((catalogue()[each].ec2_gpus for each in gpu_types(pool)), default=0)


@rule(
    "GPU167",
    "warning",
    source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/expander/priority/readme.md",
)
def priority_expander_without_priorities(case: Case) -> Iterator[Problem]:
    """Priority expander has no priorities.

    Without its ConfigMap, the expander chooses a group at random, expensive or cheap.

    Fix: Create ConfigMap cluster-autoscaler-priority-expander with key priorities in the namespace of cluster
    autoscaler.
    """
    cluster = case.cluster
    autoscaler = _found(cluster)
    chosen = str(autoscaler.flags.get("expander", "")).split(",") if autoscaler else []
    charted = autoscaler is not None and any(each.origin == autoscaler.origin for each in cluster.charts)
    if autoscaler is None or "priority" not in chosen or charted or not cluster.shows_software:
        return
    space = str(autoscaler.flags.get("namespace") or autoscaler.service_account[0])
    maps = [
        each
        for each in cluster.objects_of_kind("ConfigMap")
        if (each.namespace, each.name) == (space, PRIORITY_EXPANDER)
    ]
    if not maps:
        text = (
            f"cluster autoscaler uses --expander=priority, but ConfigMap {space}/{PRIORITY_EXPANDER} doesn't exist, so "
            "it chooses a group at random"
        )
        yield Problem(autoscaler, text, unknown=not cluster.sees_software, doubt=cluster.doubt)
    for each in maps:
        if not _has_priorities(dig(each.content, "data", "priorities")):
            text = f"ConfigMap {space}/{PRIORITY_EXPANDER}: key priorities must map numbers to lists of patterns"
            fix = "Write data.priorities as YAML that maps numbers to lists of regular expressions, such as 10: [.*]."
            yield Problem(each, text, fix)


def _has_priorities(text: object) -> bool:
    if not isinstance(text, str):
        return isinstance(text, Unknown)
    try:
        found = next((each.content for each in parse("priorities", text)), None)
    except UnusableInput:
        return False
    return isinstance(found, dict) and all(known_number(key) is not None and items(found[key]) for key in found)


@rule("GPU346", "error", source=_FLAGS)
def flag_with_which_cluster_autoscaler_does_not_start(case: Case) -> Iterator[Problem]:
    """Flag has a value with which cluster autoscaler doesn't start.

    Cluster autoscaler exits while it parses its flags, starts again, and never creates a node.

    Fix: Correct the value of the flag; 'cluster-autoscaler --help' lists the forms.
    """
    for each in case.cluster.autoscalers:
        if each.kind == "cluster-autoscaler":
            for why in _refused(each):
                yield Problem(each, f"cluster autoscaler: {why}")


@rule("GPU347", "error", source=_FLAGS)
def flag_that_cluster_autoscaler_does_not_have(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler doesn't have this flag.

    It exits with "unknown flag" and never creates a node.

    Fix: Correct the name of the flag.
    """
    for each in case.cluster.autoscalers:
        names = [one for one in each.flags if each.kind == "cluster-autoscaler" and _NAME.fullmatch(one)]
        for name in names:
            hint = did_you_mean(name, FLAGS, closeness=_CLOSENESS) if name not in FLAGS else ""
            if hint:
                read = each.version is not None and minor(each.version) == FLAGS_VERSION
                yield Problem(each, f"cluster autoscaler has no flag --{name}{hint}", unknown=not read)


def _refused(autoscaler: Autoscaler) -> Iterator[str]:
    for name, value in autoscaler.flags.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        # The last value of a repeated flag counts, except for flags that accept several values.
        words = text.split() or [""]
        for one in words if name in _LISTS else words[-1:]:
            if name in FLAGS and not _has_placeholder(text):
                yield from _flag_errors(name, one)


def _has_placeholder(text: str) -> bool:
    """Whether a value contains a part that is replaced later, as in ``<your cluster>``."""
    return is_expression(text) or bool(_BLANK.search(text))


def _flag_errors(name: str, text: str) -> Iterator[str]:
    form, called = FLAGS[name]
    if not form.fullmatch(text):
        yield f"--{name} must be {called}, got {text!r}"
    elif name == "expander":
        yield from _expanders(text)
    elif name in _FORMS and not _fits(name, text):
        yield f"--{name} must be {_FORMS[name][1]}, got {text!r}"


def _fits(name: str, text: str) -> bool:
    found = _FORMS[name][0].fullmatch(text)
    return found is not None and (not found.groups() or int(found[1]) <= int(found[2]))


def _expanders(text: str) -> Iterator[str]:
    names = text.split(",")
    for name in names:
        if name == PRICE_EXPANDER:
            yield f"--expander {PRICE_EXPANDER} needs prices, which cluster autoscaler doesn't have for AWS"
        elif name not in EXPANDERS:
            yield f"--expander must be one of {', '.join(EXPANDERS)}, got {name!r}{did_you_mean(name, EXPANDERS)}"
    if len(set(names)) < len(names):
        yield f"--expander must name each expander once, got {text!r}"
    if LAST_EXPANDER in names[:-1]:
        yield f"--expander {LAST_EXPANDER} must be the last, got {text!r}"
