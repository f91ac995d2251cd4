"""What nodes are told at boot and refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.unknown import dig, is_expression, mapping
from gpu_preflight.rules.rule import Problem, rule

_BOTTLEROCKET = "https://bottlerocket.dev/en/os/1.64.x/api/settings/"
# Source: bottlerocket-os/bottlerocket 25c1f02c sources/settings-plugins/aws-k8s-nvidia/src/lib.rs
_NAMES = """
autoscaling aws boot bootstrap-commands bootstrap-containers cloudformation container-registry container-runtime
container-runtime-plugins dns host-containers kernel kubelet-device-plugins kubelet-dra-drivers kubernetes metrics motd
network ntp nvidia-container-runtime oci-defaults oci-hooks pki updates
"""
_SECTIONS = tuple(_NAMES.split())
# Source: https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/ (2026-11)
_PLUGIN: Mapping[str, tuple[str, ...] | None] = {
    "enabled": None,
    "pass-device-specs": None,
    "device-id-strategy": ("index", "uuid"),
    "device-list-strategy": ("volume-mounts", "envvar", "cdi-cri"),
    "device-sharing-strategy": ("none", "time-slicing", "mps"),
    "device-partitioning-strategy": ("none", "mig"),
    "time-slicing": None,
    "mps": None,
    "mig": None,
}
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md
_KIND, _VERSION = "NodeConfig", "v1alpha1"
_STRATEGIES = ("RAID0", "RAID10", "Mount")
_OF_NODEADM = regex(r"apiVersion:\s*[\"']?node\.eks\.aws/([\w.-]{1,40})[\"']?[^\S\n]*\n\s*kind:\s*[\"']?([A-Za-z]+)")


@rule("GPU368", "error", source=_BOTTLEROCKET)
def settings_that_the_node_refuses_at_boot(case: Case) -> Iterator[Problem]:
    """Settings that the node refuses at boot.

    Bottlerocket takes none of them and stays off the cluster; nodeadm ends, and kubelet never starts.

    Fix: Correct the setting as the message says.
    """
    for pool in case.cluster.pools:
        if pool.operating_system == "bottlerocket":
            found = tuple(_of_bottlerocket(pool.user_data.settings))
        else:
            found = tuple(_of_nodeadm(pool)) if pool.operating_system == "al2023" else ()
        for text in found:
            yield Problem.of(pool, text)


def _of_bottlerocket(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in settings:
        if name not in _SECTIONS and not is_expression(name):
            yield f"Bottlerocket has no settings.{name}{did_you_mean(name, _SECTIONS)}"
    plugin = mapping(dig(dict(settings), "kubelet-device-plugins", "nvidia"))
    for name, value in plugin.items():
        path = f"settings.kubelet-device-plugins.nvidia.{name}"
        if name not in _PLUGIN:
            yield f"Bottlerocket has no {path}{did_you_mean(name, _PLUGIN)}"
            continue
        known = _PLUGIN[name]
        if known and isinstance(value, str) and value not in known and not is_expression(value):
            yield f"{path} must be of {', '.join(known)}, got {value!r}"


def _of_nodeadm(pool: Pool) -> Iterator[str]:
    for version, kind in dict.fromkeys(_OF_NODEADM.findall(pool.user_data.text or "")):
        if version != _VERSION:
            yield f"nodeadm knows no node.eks.aws/{version}; it is node.eks.aws/{_VERSION}"
        if kind != _KIND:
            yield f"nodeadm knows no kind {kind}; it is {_KIND}"
    strategy = dig(pool.user_data.node_config, "instance", "localStorage", "strategy")
    if isinstance(strategy, str) and strategy not in _STRATEGIES and not is_expression(strategy):
        yield f"instance.localStorage.strategy must be of {', '.join(_STRATEGIES)}, got {strategy!r}"
