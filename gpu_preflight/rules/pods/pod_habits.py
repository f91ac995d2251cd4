"""Habits in manifests of pods that do not do what their author thinks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpu_facts.light_patterns import regex
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.container import Container
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.model.node_selection import Selection
from gpu_preflight.model.pod import pod_of
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.rules.rule import Problem, rule

# Source: torvalds/linux v6.12 include/uapi/linux/capability.h
_CAPABILITIES = """
ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE
DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE
MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG
SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE
SYS_TIME SYS_TTY_CONFIG WAKE_ALARM
"""
_KNOWN = frozenset(_CAPABILITIES.split())
_ENDS = regex(r"(?:^|[\s;&/])nvidia-smi(?:\s|;|&|$)")
_GOES_ON = regex(r"\b(?:sleep|while|watch|tail|loop|dmon|pmon)\b|nvidia-smi[^;&]{0,200}\s-l")
# Anything else is a placeholder.
_IMAGE = regex(r"[a-z0-9._:/@-]+(:[A-Za-z0-9._-]+)?")
_SAMPLES = ("cuda-sample", "vectoradd", "vector-add")


@rule("GPU251", "error", source="https://man7.org/linux/man-pages/man7/capabilities.7.html")
def linux_capability_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Linux capability that does not exist.

    The container runtime does not create the container.

    Fix: Remove it: NVIDIA's device plugin needs none, and SYS_ADMIN only for MIG strategies.
    """
    cluster = case.cluster
    for each in cluster.of_kind("DaemonSet"):
        for name in _unknown_capabilities(pod_of(each).every_container):
            yield Problem(each, f"DaemonSet {each.namespace}/{each.name}: there is no capability {name}")
    for workload in cluster.workloads:
        for name in _unknown_capabilities(workload.containers) if workload.asks_for_gpu else ():
            yield Problem.of(workload, f"there is no capability {name}")


def _unknown_capabilities(containers: Iterable[Container]) -> Iterator[str]:
    for container in containers:
        # What is dropped without existing is no harm.
        for name in container.capabilities:
            text = known_text(name)
            if text is not None and text.upper().removeprefix("CAP_") not in _KNOWN and "${" not in text:
                yield text


@rule("GPU252", "note", source="https://kubernetes.io/docs/concepts/containers/images/#image-names")
def image_named_by_a_tag_that_moves(case: Case) -> Iterator[Problem]:
    """Image by a tag that moves.

    Another CUDA may come with the next node, and one that the node's driver is too old for does not start.

    Fix: Pin a version, or better a digest.
    """
    for workload in case.cluster.workloads:
        images = [each.image_text for each in workload.containers] if workload.asks_for_gpu else []
        for image in dict.fromkeys(each for each in images if each and _moves(each)):
            yield Problem.of(workload, f"image {image} is whatever was pushed last")


def _moves(image: str) -> bool:
    if "@sha256:" in image or not _IMAGE.fullmatch(image):
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag == "" or "latest" in re.split(r"[-_.]", tag)


@rule("GPU253", "warning", source="https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md")
def pod_that_takes_every_gpu_of_its_node(case: Case) -> Iterator[Problem]:
    """Pod that takes every GPU of its node.

    The container sees all GPUs whatever it asks for, those of other pods too, and is counted for none.

    Fix: Remove the variable and set a limit of nvidia.com/gpu; set it to void where no GPU is meant.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            if container.env.get("NVIDIA_VISIBLE_DEVICES") == "all":
                yield Problem.of(workload, f"container {container.name} sets NVIDIA_VISIBLE_DEVICES=all")


@rule("GPU254", "warning", source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/")
def nvidia_com_gpu_as_label_or_annotation(case: Case) -> Iterator[Problem]:
    """nvidia.com/gpu as label or annotation.

    It is the name of a resource: nothing labels nodes with it, and an annotation asks for nothing.

    Fix: Ask for it in resources.limits; select nodes by nvidia.com/gpu.present or by a label of your pool.
    """
    cluster = case.cluster
    for workload in cluster.workloads:
        if GPU in {**workload.annotations, **workload.owner.annotations} and not workload.asks_for_gpu:
            yield Problem.of(workload, f"annotation {GPU} grants no GPU, limits do")
        # With pools in view the label is looked for on their nodes.
        if not cluster.pools and _selects_by_resource(workload.pod.selection):
            yield Problem.of(workload, f"selects nodes by label {GPU}, which nothing sets")
    labelled = any(GPU in pool.labels for pool in cluster.pools)
    for each in cluster.daemon_sets:
        if not labelled and _selects_by_resource(each.pod.selection):
            yield Problem(each, f"DaemonSet {each.name}: selects nodes by label {GPU}, which nothing sets")


def _selects_by_resource(chosen: Selection) -> bool:
    required = [one for one in chosen.selector if one.key == GPU]
    terms = chosen.terms or ()
    return bool(required) or (bool(terms) and all(any(_is_resource(one) for one in term.labels) for term in terms))


def _is_resource(requirement: Requirement) -> bool:
    return requirement.key == GPU and requirement.operator in ("In", "Exists")


@rule("GPU255", "warning", source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy")
def finished_pod_that_is_run_again_and_keeps_its_gpu(case: Case) -> Iterator[Problem]:
    """Finished pod that is run again and keeps its GPU.

    The pod restarts with growing pauses and holds the GPU, and its node, all the while.

    Fix: Set restartPolicy: Never, or make it a Job.
    """
    for workload in case.cluster.workloads:
        always = workload.pod.restart_policy in (None, "Always")
        if workload.owner.kind in ("Pod", "Deployment") and always and workload.asks_for_gpu and _finishes(workload):
            yield Problem.of(workload, "its command ends, and restartPolicy Always runs it again")


def _finishes(workload: Workload) -> bool:
    containers = workload.pod.containers or ()
    if len(containers) != 1:
        return False
    [container] = containers
    text = " ".join(map(str, container.words))
    sample = not container.words and any(name in container.image_text for name in _SAMPLES)
    return sample or (bool(_ENDS.search(text)) and not _GOES_ON.search(text))
