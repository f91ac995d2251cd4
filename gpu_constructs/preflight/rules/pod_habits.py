"""Habits in manifests of pods that do not do what their author thinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_constructs.preflight.model import GPU, Cluster, Workload
from gpu_constructs.preflight.node_selection import selection
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, items, known_text, mappings

# Source: torvalds/linux v6.12 include/uapi/linux/capability.h
_CAPABILITIES = """
ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE
DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE
MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG
SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE
SYS_TIME SYS_TTY_CONFIG WAKE_ALARM
"""
_KNOWN = frozenset(_CAPABILITIES.split())
_ENDS = re.compile(r"(?:^|[\s;&/])nvidia-smi(?:\s|;|&|$)")
_GOES_ON = re.compile(r"\b(?:sleep|while|watch|tail|loop|dmon|pmon)\b|nvidia-smi[^;&]*\s-l")
# Anything else is a placeholder.
_IMAGE = re.compile(r"[a-z0-9._:/@-]+(:[A-Za-z0-9._-]+)?")
_SAMPLES = ("cuda-sample", "vectoradd", "vector-add")


def _capabilities(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind("DaemonSet"):
        pod = dig(dict(each.spec), "template", "spec")
        containers = [*mappings(dig(pod, "initContainers")), *mappings(dig(pod, "containers"))]
        for name in _unknown_capabilities(containers):
            yield Problem(each.origin, f"DaemonSet {each.namespace}/{each.name}: there is no capability {name}")
    for workload in cluster.workloads:
        for name in _unknown_capabilities(workload.containers) if workload.asks_for_gpu else ():
            yield Problem(workload.origin, f"{workload.name}: there is no capability {name}")


def _unknown_capabilities(containers: list[dict[str, Any]]) -> Iterator[str]:
    for container in containers:
        # What is dropped without existing is no harm.
        for name in items(dig(container, "securityContext", "capabilities", "add")):
            text = known_text(name)
            if text is not None and text.upper().removeprefix("CAP_") not in _KNOWN and "${" not in text:
                yield text


def _mutable(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        images = [known_text(each.get("image")) for each in workload.containers] if workload.asks_for_gpu else []
        for image in dict.fromkeys(each for each in images if each and _moves(each)):
            yield Problem(workload.origin, f"{workload.name}: image {image} is whatever was pushed last")


def _moves(image: str) -> bool:
    if "@sha256:" in image or not _IMAGE.fullmatch(image):
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag == "" or "latest" in re.split(r"[-_.]", tag)


def _sees_all(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        for container in workload.containers:
            env = {known_text(each.get("name")): each.get("value") for each in mappings(container.get("env"))}
            if env.get("NVIDIA_VISIBLE_DEVICES") == "all":
                message = f"{workload.name}: container {container.get('name')} sets NVIDIA_VISIBLE_DEVICES=all"
                yield Problem(workload.origin, message)


def _no_label(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        if GPU in {**workload.annotations, **workload.owner.annotations} and not workload.asks_for_gpu:
            yield Problem(workload.origin, f"{workload.name}: annotation {GPU} grants no GPU, limits do")
        # With pools in view the label is looked for on their nodes.
        if not cluster.pools and _selects_by_resource(workload.pod):
            yield Problem(workload.origin, f"{workload.name}: selects nodes by label {GPU}, which nothing sets")
    labelled = any(GPU in pool.labels for pool in cluster.pools)
    for each in cluster.daemon_sets:
        if not labelled and _selects_by_resource(each.pod):
            yield Problem(each.origin, f"DaemonSet {each.name}: selects nodes by label {GPU}, which nothing sets")


def _selects_by_resource(pod: Mapping[str, Any]) -> bool:
    chosen = selection(pod)
    required = [one for one in chosen.selector if one.key == GPU]
    terms = chosen.terms or ()
    return bool(required) or (bool(terms) and all(any(_is_resource(one) for one in term.labels) for term in terms))


def _is_resource(requirement: Any) -> bool:
    return requirement.key == GPU and requirement.operator in ("In", "Exists")


def _runs_again(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        always = workload.pod.get("restartPolicy") in (None, "Always")
        if workload.owner.kind in ("Pod", "Deployment") and always and workload.asks_for_gpu and _finishes(workload):
            yield Problem(workload.origin, f"{workload.name}: its command ends, and restartPolicy Always runs it again")


def _finishes(workload: Workload) -> bool:
    containers = mappings(workload.pod.get("containers"))
    if len(containers) != 1:
        return False
    words = [*items(containers[0].get("command")), *items(containers[0].get("args"))]
    text = " ".join(str(word) for word in words)
    image = known_text(containers[0].get("image")) or ""
    sample = not words and any(name in image for name in _SAMPLES)
    return sample or (bool(_ENDS.search(text)) and not _GOES_ON.search(text))


RULES = (
    Rule(
        id="GPU251",
        severity="error",
        title="Linux capability that does not exist",
        why="The container runtime does not create the container.",
        source="https://man7.org/linux/man-pages/man7/capabilities.7.html",
        fix="Remove it: NVIDIA's device plugin needs none, and SYS_ADMIN only for MIG strategies.",
        causes=("W0.1",),
        check=_capabilities,
    ),
    Rule(
        id="GPU252",
        severity="note",
        title="Image by a tag that moves",
        why="Another CUDA may come with the next node, and one that the node's driver is too old for does not start.",
        source="https://kubernetes.io/docs/concepts/containers/images/#image-names",
        fix="Pin a version, or better a digest.",
        causes=("W1.13",),
        check=_mutable,
    ),
    Rule(
        id="GPU253",
        severity="warning",
        title="Pod that takes every GPU of its node",
        why="The container sees all GPUs whatever it asks for, those of other pods too, and is counted for none.",
        source="https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md",
        fix="Remove the variable and set a limit of nvidia.com/gpu; set it to void where no GPU is meant.",
        causes=("W1.6",),
        check=_sees_all,
    ),
    Rule(
        id="GPU254",
        severity="warning",
        title="nvidia.com/gpu as label or annotation",
        why="It is the name of a resource: nothing labels nodes with it, and an annotation asks for nothing.",
        source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
        fix="Ask for it in resources.limits; select nodes by nvidia.com/gpu.present or by a label of your pool.",
        causes=("W0.3", "W1.5", "W2.14"),
        check=_no_label,
    ),
    Rule(
        id="GPU255",
        severity="warning",
        title="Finished pod that is run again and keeps its GPU",
        why="The pod restarts with growing pauses and holds the GPU, and its node, all the while.",
        source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy",
        fix="Set restartPolicy: Never, or make it a Job.",
        causes=("W0.7",),
        check=_runs_again,
    ),
)
