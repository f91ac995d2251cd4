"""Rules for pod templates with settings that have no effect or an unexpected one: data, zones, options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from gpu_facts.access_tokens import DYNAMIC_REFERENCE, access_token_kind
from gpu_facts.labels import EBS_ZONE, ZONE
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import EFA, GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import spans_zones
from gpu_preflight.cluster.objects import NamedData, keys_by_name, named_data
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.container import Container
from gpu_preflight.model.label_values import Requirement, Selection
from gpu_preflight.model.pod import Workload, read_pod_template
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, items, known_text
from gpu_preflight.rule import Problem, check_each_pod, rule
from gpu_preflight.schema.validation import is_slip_for_one

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
# Other texts are placeholders.
_IMAGE = regex(r"[a-z0-9._:/@-]+(:[A-Za-z0-9._-]+)?")
_SAMPLES = ("cuda-sample", "vectoradd", "vector-add")
_VOLUMES = "https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode"
_FROM_SECRET = (
    "Create a Kubernetes Secret outside the template, for example with External Secrets Operator from Secrets Manager, "
    "and set the variable by valueFrom.secretKeyRef. If the stack was deployed, replace the token."
)
_ZONE_KEYS = (ZONE, EBS_ZONE, "topology.ebs.csi.eks.amazonaws.com/zone")


@rule("GPU251", "error", source="https://man7.org/linux/man-pages/man7/capabilities.7.html")
def linux_capability_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Linux capability doesn't exist.

    The container runtime doesn't create the container.

    Fix: Remove the capability, or correct its name.
    """
    cluster = case.cluster
    for each in cluster.objects_of_kind("DaemonSet"):
        for name in _unknown_capabilities(read_pod_template(each).every_container):
            text = f"DaemonSet {each.namespace}/{each.name} adds Linux capability {name}, which doesn't exist"
            yield Problem(each, text)
    for workload in cluster.workloads:
        for name in _unknown_capabilities(workload.containers) if workload.asks_for_gpu else ():
            yield Problem.from_subject(workload, f"adds Linux capability {name}, which doesn't exist")


def _unknown_capabilities(containers: Iterable[Container]) -> Iterator[str]:
    for container in containers:
        # Dropping a capability that doesn't exist is harmless.
        for name in container.capabilities:
            text = known_text(name)
            if text is not None and text.upper().removeprefix("CAP_") not in _KNOWN and "${" not in text:
                yield text


@rule("GPU252", "note", source="https://kubernetes.io/docs/concepts/containers/images/#image-names")
def image_named_by_a_tag_that_moves(case: Case) -> Iterator[Problem]:
    """Container image has no fixed tag.

    The next node may pull another CUDA version. A version that is too new for the node's driver doesn't start.

    Fix: Pin a version, or better a digest.
    """
    for workload in case.cluster.workloads:
        images = [each.image_text for each in workload.containers] if workload.asks_for_gpu else []
        for image in dict.fromkeys(each for each in images if each and _moves(each)):
            text = f"image {image} has no fixed tag, so each node may pull another version"
            yield Problem.from_subject(workload, text)


def _moves(image: str) -> bool:
    if "@sha256:" in image or not _IMAGE.fullmatch(image):
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag == "" or "latest" in re.split(r"[-_.]", tag)


@rule("GPU253", "warning", source="https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md")
def pod_that_takes_every_gpu_of_its_node(case: Case) -> Iterator[Problem]:
    """Pod accesses every GPU of its node.

    The container sees all GPUs independent of its requests, including GPUs of other pods. The scheduler counts none for
    it.

    Fix: Remove the variable and set nvidia.com/gpu in limits, or set the variable to void if the container needs no
    GPU.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            if container.env.get("NVIDIA_VISIBLE_DEVICES") == "all":
                text = f"container {container.name} sets NVIDIA_VISIBLE_DEVICES=all, so it uses every GPU of its node"
                own = "Remove the variable. The device plugin sets it to the GPUs of the container."
                yield Problem.from_subject(workload, text, fix=own if GPU in container.requests else "")


@rule("GPU254", "warning", source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/")
def nvidia_com_gpu_as_label_or_annotation(case: Case) -> Iterator[Problem]:
    """Resource name nvidia.com/gpu is used as a label or annotation.

    No component labels nodes with this resource name, and an annotation requests no GPU.

    Fix: Set nvidia.com/gpu in resources.limits. Select nodes by nvidia.com/gpu.present or by a label of your pool.
    """
    by_label = "Select nodes by label nvidia.com/gpu.present=true of GPU feature discovery, or by a label of your pool."
    cluster = case.cluster
    for workload in cluster.workloads:
        if GPU in {**workload.annotations, **workload.owner.annotations} and not workload.asks_for_gpu:
            text = f"annotation {GPU} requests no GPU; use limits instead"
            yield Problem.from_subject(workload, text, fix=f"Set {GPU} in resources.limits of the container.")
        # With pools in the input, GPU120 checks the label on their nodes.
        if not cluster.pools and _selects_by_resource(workload.pod.selection):
            text = f"selects nodes by label {GPU}, which no component sets"
            yield Problem.from_subject(workload, text, fix=by_label)
    labelled = any(GPU in pool.labels for pool in cluster.pools)
    for each in cluster.daemon_sets:
        if not labelled and _selects_by_resource(each.pod.selection):
            yield Problem(
                each, f"DaemonSet {each.name} selects nodes by label {GPU}, which no component sets", by_label
            )


def _selects_by_resource(chosen: Selection) -> bool:
    required = [one for one in chosen.selector if one.key == GPU]
    terms = chosen.terms or ()
    return bool(required) or (bool(terms) and all(any(_is_resource(one) for one in term.labels) for term in terms))


def _is_resource(requirement: Requirement) -> bool:
    return requirement.key == GPU and requirement.operator in ("In", "Exists")


@rule("GPU255", "warning", source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy")
def finished_pod_that_is_run_again_and_keeps_its_gpu(case: Case) -> Iterator[Problem]:
    """Completed pod restarts and keeps its GPU.

    The pod restarts with growing pauses, and keeps the GPU and its node all the time.

    Fix: Set restartPolicy: Never, or use a Job.
    """
    for workload in case.cluster.workloads:
        always = workload.pod.restart_policy in (None, "Always")
        if workload.owner.kind in ("Pod", "Deployment") and always and workload.asks_for_gpu and _finishes(workload):
            text = "its command ends, but restartPolicy Always runs it again and keeps the GPU"
            yield Problem.from_subject(workload, text)


def _finishes(workload: Workload) -> bool:
    containers = workload.pod.containers or ()
    if len(containers) != 1:
        return False
    [container] = containers
    text = " ".join(map(str, container.words))
    sample = not container.words and any(name in container.image_text for name in _SAMPLES)
    return sample or (bool(_ENDS.search(text)) and not _GOES_ON.search(text))


@rule("GPU410", "error", source="https://kubernetes.io/docs/concepts/configuration/configmap/")
def config_map_or_secret_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """ConfigMap or Secret doesn't exist, or lacks a key.

    The pod gets a node and stays there in CreateContainerConfigError or ContainerCreating, with its GPUs.

    Fix: Create the ConfigMap or Secret in the pod's namespace, correct its name, or set optional: true where the pod
    names it.
    """

    def missing_data(workload: Workload) -> Iterator[Problem]:
        """Yield the ConfigMaps and Secrets of a pod that the input doesn't have."""
        for wanted in dict.fromkeys(named_data(workload.pod)):
            yield from _missing(workload, wanted, case.cluster)

    yield from check_each_pod(case.gpu_workloads, missing_data)


def _missing(workload: Workload, wanted: NamedData, cluster: Cluster) -> Iterator[Problem]:
    there = keys_by_name(wanted.kind, workload.namespace, cluster)
    title = f"{wanted.kind} {workload.namespace}/{wanted.name}"
    if wanted.name not in there:
        if _should_be_there(wanted, there, workload, cluster):
            text = f"{title} doesn't exist{did_you_mean(wanted.name, there)}"
            yield Problem.from_subject(workload, text, unknown=True)
        return
    keys = there[wanted.name]
    for key in dict.fromkeys(wanted.keys):
        if keys is not None and key not in keys:
            fix = f"Correct the key, or add it to the {wanted.kind}."
            yield Problem.from_subject(workload, f"{title} has no key {key}{did_you_mean(key, keys)}", fix=fix)


def _should_be_there(wanted: NamedData, there: Collection[str], workload: Workload, cluster: Cluster) -> bool:
    """Whether the input should contain an object: users keep Secrets elsewhere, and charts create their own."""
    if is_slip_for_one(wanted.name, there):
        return True
    charts = any(each.namespace == workload.namespace for each in cluster.charts)
    return wanted.kind == "ConfigMap" and bool(there) and cluster.sees_objects and not charts


@rule("GPU413", "warning", source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/")
def access_token_in_a_manifest(case: Case) -> Iterator[Problem]:
    """Manifest contains an access token.

    Everyone who can read the file, the template, the pod or their history has the token.

    Fix: Revoke the token, put a new one into a Kubernetes Secret, and set a variable to it by valueFrom.secretKeyRef.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            for place, kind in dict.fromkeys(_tokens(container)):
                text, fix = f"container {container.name} has {kind} in {place}", ""
                if kind == DYNAMIC_REFERENCE:
                    where = place.replace("its command", "the command")
                    text = (
                        f"{where} of container {container.name} has a dynamic reference to a secret; CloudFormation "
                        "replaces it with the plain text, which is then readable in the pod's spec"
                    )
                    fix = _FROM_SECRET
                yield Problem.from_subject(workload, text, fix=fix)


def _tokens(container: Container) -> Iterator[tuple[str, str]]:
    parts = [(f"variable {name}", name, value) for name, value in container.env.items()]
    parts += [("its command", "", each) for each in container.words]
    for place, variable, value in parts:
        # References that CloudFormation resolves aren't known. The template contains their expressions.
        text = value.expression if isinstance(value, Unknown) else known_text(value)
        kind = access_token_kind(text, variable=variable) if text is not None else None
        if kind is not None:
            yield place, kind


def _disks(workload: Workload, cluster: Cluster) -> Iterator[Object]:
    """Yield the storage classes of a workload's EBS volumes that are in the input."""
    for claim in claimed(workload, cluster):
        if claim.storage_class and claim.is_ebs:
            yield claim.storage_class.object


@rule("GPU135", "warning", source=_VOLUMES)
def disk_made_before_the_gpu_pod_has_a_node(case: Case) -> Iterator[Problem]:
    """Disk is created before the GPU pod has a node.

    The volume may be created in a zone without GPU nodes. The pod then has a volume node affinity conflict.

    Fix: Set volumeBindingMode to WaitForFirstConsumer in the StorageClass.
    """
    cluster = case.cluster
    for workload in cluster.workloads:
        if not workload.asks_for_gpu:
            continue
        for each in dict.fromkeys(one.name for one in _disks(workload, cluster) if _is_early(one)):
            text = f"StorageClass {each} creates its disk before the pod has a node, maybe in a zone without GPU nodes"
            yield Problem.from_subject(workload, text)


def _is_early(storage: Object) -> bool:
    early = storage.content.get("volumeBindingMode") in (None, "Immediate")
    return early and not items(storage.content.get("allowedTopologies"))


def _may_span(pool: Pool) -> bool:
    return bool(pool.zones) and spans_zones(pool) is not Answer.NO


@rule(
    "GPU137",
    "warning",
    source=(
        "kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_manager.go buildNodeFromTemplate"
    ),
)
def disk_of_one_zone_on_a_group_of_several(case: Case) -> Iterator[Problem]:
    """Group of several zones runs a pod whose disk is in one zone.

    For an empty group, cluster autoscaler expects nodes only in the first zone. A pod whose disk is in another zone
    starts none.

    Fix: Create one node group for each zone.
    """
    cluster = case.cluster
    if cluster.autoscaler("cluster-autoscaler") is None:
        return
    for workload in cluster.workloads:
        if not workload.asks_for_gpu or not any(_disks(workload, cluster)):
            continue
        for pool in case.candidate_pools(workload):
            if pool.is_group and pool.min_nodes == 0 and _may_span(pool):
                text = f"its disk is in one zone, but cluster autoscaler expects new nodes of pool {pool.name}"
                text += f" only in the first of its {len(pool.zones)} zones"
                yield Problem.from_subject(workload, text, unknown=spans_zones(pool) is Answer.UNKNOWN)


@rule("GPU139", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html")
def efa_pods_that_may_land_in_different_zones(case: Case) -> Iterator[Problem]:
    """Pods of an EFA job may run in different zones.

    EFA traffic doesn't leave its zone. Pods of one job in different zones can't communicate over EFA.

    Fix: Require one zone in topology.kubernetes.io/zone of the NodePool, or set a placement group in the EC2NodeClass.
    """
    for workload in case.cluster.workloads:
        if not workload.pod.requests.get(EFA) or workload.replicas == 1:
            continue
        for pool in case.candidate_pools(workload):
            if pool.kind == "karpenter" and _may_span(pool) and not pool.launch.placement_terms:
                text = f"its pods may run in {len(pool.zones)} zones of pool {pool.name}, but EFA doesn't cross zones"
                yield Problem.from_subject(workload, text, unknown=spans_zones(pool) is Answer.UNKNOWN)
