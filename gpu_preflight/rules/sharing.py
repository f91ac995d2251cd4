"""Rules for GPU sharing that the nodes or the device plugin don't support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import DEVICE_PLUGIN, GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.gpu_models import BOTTLEROCKET_NAMES, PROFILES, SLICES, USUAL_SLICES, compute_slices
from gpu_facts.labels import MIG_CONFIG, OPERATOR_CONFIG
from gpu_facts.light import regex
from gpu_facts.resources import GPU, NVIDIA
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.software import DaemonSet, MissingConfig
from gpu_preflight.node.devices import (
    bottlerocket_mig_settings,
    has_own_geometries,
    is_partitioned,
    mig_instances_from_script,
    single_label_value,
)
from gpu_preflight.node.nodes import gpu_types, surely_launches
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_number, mapping, mappings
from gpu_preflight.rule import Problem, rule

_MIG = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html"
_PROFILE = regex(r"[0-9]g\.[0-9]{1,4}gb(\+me)?")
# A MIG geometry of the GPU Operator with several profiles.
_BALANCED = "all-balanced"
# Numbers of compute slices that Bottlerocket accepts instead of a profile.
_COUNTS = ("1", "2", "3", "4", "7")
_STRATEGIES = ("none", "single", "mixed")
_LEAST_REPLICAS = 2
_USE_LISTED = "Use one of the profiles that the message lists."
# The values of charts that set the MIG strategy.
_STRATEGY_VALUES = {
    DEVICE_PLUGIN: f"value migStrategy of chart {DEVICE_PLUGIN}",
    GPU_OPERATOR: f"value mig.strategy of chart {GPU_OPERATOR}",
}


@rule("GPU013", "error", source=_MIG)
def mig_partition_that_the_gpus_do_not_have(case: Case) -> Iterator[Problem]:
    """GPU doesn't support the MIG partition.

    The partition fails at boot. The slices that pods request are never advertised.

    Fix: Use a MIG profile of the instance type, or a type whose GPUs support MIG.
    """
    for pool in case.gpu_pools:
        if pool.kind == "auto-mode" or not is_partitioned(pool):
            continue
        rows = [catalogue()[each] for each in gpu_types(pool)]
        unable = [each.name for each in rows if not each.mig]
        if unable:
            message = f"its GPUs are partitioned with MIG, which {', '.join(unable[:4])} doesn't support"
            fix = "Use instance types whose GPUs support MIG, such as p4d.24xlarge, or remove the MIG configuration."
            yield Problem.from_subject(pool, message, fix=fix, unknown=not surely_launches(pool, unable))
            continue
        for text, fix in dict.fromkeys(each for row in rows for each in _misfits(pool, row, case.cluster)):
            yield Problem.from_subject(pool, text, fix=fix, unknown=pool.undecided)


def _misfits(pool: Pool, row: InstanceType, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield why a type's GPUs don't have the partition, and the fix."""
    profiles = PROFILES.get(row.family)
    if profiles is None:
        return
    known = ", ".join(profiles)
    for name, count in (mig_instances_from_script(pool) or Counter[str]()).items():
        if _PROFILE.fullmatch(name) and count > profiles.get(name, 0):
            most = profiles.get(name, 0)
            text = f"a GPU of {row.name} supports up to {most} instances {name}, got {count}; its profiles are {known}"
            yield text, f"Create at most {most} instances {name} per GPU." if most else _USE_LISTED
    taken = sum(
        compute_slices(name) * count
        for name, count in (mig_instances_from_script(pool) or {}).items()
        if _PROFILE.fullmatch(name)
    )
    slices = SLICES.get(row.family, USUAL_SLICES)
    if taken > slices:
        text = f"a GPU of {row.name} has {slices} compute slices, but the profiles need {taken}"
        yield text, f"Create fewer instances per GPU: the first digits of their profiles may add up to {slices}."
    labelled = (single_label_value(pool, MIG_CONFIG) or "").removeprefix("all-").replace(".me", "+me")
    if _PROFILE.fullmatch(labelled) and labelled not in profiles and not has_own_geometries(cluster):
        yield f"{row.name} has no MIG profile {labelled}; its profiles are {known}", _USE_LISTED
    yield from _bottlerocket_misfits(pool, row, known)


def _bottlerocket_misfits(pool: Pool, row: InstanceType, known: str) -> Iterator[tuple[str, str]]:
    settings, name = bottlerocket_mig_settings(pool), BOTTLEROCKET_NAMES.get(row.family)
    if not settings or name is None:
        return
    profile = dig(settings, "mig", "profile", name)
    if profile is None:
        setting = "settings.kubelet-device-plugins.nvidia.mig.profile"
        text = f"{setting} has no entry {name} for the GPU of {row.name}"
        yield text, f"Add an entry {name} to {setting}, with one of the profiles {known}."
    elif isinstance(profile, str) and profile not in (*PROFILES[row.family], *_COUNTS):
        yield f"{row.name} has no MIG profile {profile}; its profiles are {known}", _USE_LISTED


@rule("GPU015", "error", source="https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md")
def mig_strategy_that_does_not_go_with_the_partition(case: Case) -> Iterator[Problem]:
    """MIG strategy of the device plugin doesn't fit the partition.

    The plugin then advertises no GPU at all, or a whole one that no container can use.

    Fix: Set the MIG strategy to mixed.
    """
    for pool in case.gpu_pools:
        made = mig_instances_from_script(pool)
        several = (made is not None and len(made) > 1) or single_label_value(pool, MIG_CONFIG) == _BALANCED
        if not is_partitioned(pool) or bottlerocket_mig_settings(pool):
            continue
        for daemon in case.cluster.daemon_sets:
            if GPU not in daemon.advertises or case.reaches(daemon, pool) is not Answer.YES:
                continue
            config = daemon.select_config(pool.labels)
            known = config is None or isinstance(config, dict)
            strategy = (dig(config, "flags", "migStrategy") or "none") if known else None
            if strategy == "none":
                message = (
                    f"DaemonSet {daemon.name} has migStrategy none, so it offers the partitioned GPUs as whole ones"
                )
                fix = _strategy_fix(daemon, case.cluster, several=several)
                yield Problem.from_subject(pool, message, fix=fix)
            elif strategy == "single" and several:
                message = (
                    f"DaemonSet {daemon.name} has migStrategy single, but its GPUs have several profiles, so it "
                    "advertises no GPU"
                )
                fix = _strategy_fix(daemon, case.cluster, several=several)
                yield Problem.from_subject(pool, message, fix=fix)


def _strategy_fix(daemon: DaemonSet, cluster: Cluster, *, several: bool) -> str:
    chart = next((each.name for each in cluster.charts if each.origin == daemon.origin), "")
    setting = _STRATEGY_VALUES.get(chart, f"environment variable MIG_STRATEGY of DaemonSet {daemon.name}")
    single = "" if several else ", or to single if all GPUs of a node have the same profile"
    return f"Set {setting} to mixed{single}."


@rule("GPU016", "warning", source=_MIG)
def sharing_asked_of_eks_auto_mode(case: Case) -> Iterator[Problem]:
    """EKS Auto Mode doesn't support GPU sharing.

    Auto Mode offers only whole GPUs. Pods that request shares or slices stay Pending.

    Fix: Share GPUs in a node group or with Karpenter, and use Auto Mode for pods that need a whole GPU.
    """
    for pool in case.gpu_pools:
        labels = [each for each in (MIG_CONFIG, OPERATOR_CONFIG) if pool.kind == "auto-mode" and each in pool.labels]
        if labels:
            text = (
                f"its nodes have label {' and '.join(labels)}, but EKS Auto Mode ignores it and offers only whole GPUs"
            )
            yield Problem.from_subject(pool, text)


@rule("GPU112", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html")
def more_shares_of_gpus_than_places_for_pods(case: Case) -> Iterator[Problem]:
    """Node offers more GPU shares than it can run pods.

    The node is full of pods before its shares are used. An autoscaler that assumes 110 pods creates no other node.

    Fix: Raise maxPods together with prefix delegation of the network plugin, or configure fewer shares.
    """
    for pool in case.gpu_pools:
        for node in case.nodes(pool):
            shares = sum(amount for name, amount in node.most.items() if name.startswith(NVIDIA))
            places = node.most.get("pods")
            if places is not None and node.row and shares > max(places, node.row.gpus):
                message = f"{node.instance_type} offers {shares} GPU shares but runs at most {places} pods"
                yield Problem.from_subject(pool, message)


@rule("GPU395", "error", source="NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/replicas.go")
def configuration_that_the_device_plugin_refuses(case: Case) -> Iterator[Problem]:
    """Device plugin rejects its configuration.

    The plugin exits at start, and the nodes advertise no GPU.

    Fix: Correct the configuration, or the label nvidia.com/device-plugin.config of the nodes.
    """
    for daemon in case.cluster.daemon_sets:
        if GPU not in daemon.advertises:
            continue
        configs = [daemon.config]
        for pool, answer in [(pool, case.reaches(daemon, pool)) for pool in case.gpu_pools]:
            config = daemon.select_config(pool.labels)
            if answer is not Answer.NO and isinstance(config, MissingConfig):
                message = f"its nodes select configuration {config.name!r}, which DaemonSet {daemon.name} doesn't have"
                fix = "Correct label nvidia.com/device-plugin.config of the nodes, or add this configuration."
                yield Problem.from_subject(pool, message, fix=fix, unknown=answer is not Answer.YES)
            configs += [config] if answer is not Answer.NO else []
        texts = [text for config in configs if isinstance(config, dict) for text in _wrong(config)]
        for text in dict.fromkeys(texts):
            yield Problem(
                daemon, f"DaemonSet {daemon.name}: {text}", "Correct the configuration as the message states."
            )


def _wrong(config: Mapping[str, Any]) -> Iterator[str]:
    strategy = dig(dict(config), "flags", "migStrategy")
    if isinstance(strategy, str) and strategy not in _STRATEGIES and not is_expression(strategy):
        yield f"migStrategy must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
    ways = [way for way in ("timeSlicing", "mps") if mapping(dig(dict(config), "sharing", way)).get("resources")]
    if len(ways) > 1:
        yield "sharing.timeSlicing and sharing.mps exclude each other, but both are set"
    for way in ways:
        for each in mappings(dig(dict(config), "sharing", way, "resources")):
            written = each.get("replicas")
            number = known_number(written)
            known = not isinstance(written, Unknown) and not is_expression(str(written))
            shown = "none" if written is None else written
            if known and (number is None or number < _LEAST_REPLICAS):
                yield f"sharing.{way}: replicas of {each.get('name')} must be at least {_LEAST_REPLICAS}, got {shown}"
