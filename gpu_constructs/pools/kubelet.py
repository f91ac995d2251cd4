"""Labels, taints and tags of nodes, startup taints of storage drivers, and the kubelet's reservations and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, cast, get_args

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.node_capacity import EVICTED_MEMORY, eni_pods, least_memory, reserved_cpu, reserved_memory
from gpu_facts.kubernetes import (
    KUBELET_DOMAINS,
    LABEL_VALUE,
    QUALIFIED_NAME,
    RESTRICTED_DOMAINS,
    checked_labels,
    is_under,
)
from gpu_facts.labels import (
    ACCELERATOR,
    CLUSTER_TAG,
    EKS_DOMAIN,
    GPU_PRESENT,
    KARPENTER_AWS_DOMAIN,
    KARPENTER_DOMAIN,
    OUR_DOMAIN,
)
from gpu_facts.labels import GPU_TAINT as _GPU_TAINT_KEY
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import GIB, MIB, resources
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number, words
from gpu_facts.resources import DISK
from gpu_facts.storage import EBS, FSX, S3, STARTUP_TAINTS

# Source: https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/
_RESERVABLE = ("cpu", "memory", DISK, "pid")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kKMGT]i?)?", re.ASCII)
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
StorageDriver = Literal["ebs", "fsx", "s3"]
# Names of the drivers in volumes.
DRIVER_NAMES: Final[dict[StorageDriver, str]] = {"ebs": EBS, "fsx": FSX, "s3": S3}
# Label prefixes that EKS or Karpenter own, or that a kubelet may not set on its own node.
# Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
_FOREIGN_DOMAINS = (*RESTRICTED_DOMAINS, EKS_DOMAIN, KARPENTER_DOMAIN, KARPENTER_AWS_DOMAIN)
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html, EC2NodeClass CRD of Karpenter v1.14.1
_MAX_TAGS, _MAX_KEY, _MAX_VALUE = 40, 128, 256
_FOREIGN_TAGS = ("aws:", "eks:", CLUSTER_TAG.rstrip("/"), f"{KARPENTER_DOMAIN}/", f"{KARPENTER_AWS_DOMAIN}/")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """A taint keeps pods that don't tolerate it off a node.

    Attributes:
        key: Qualified name.
        value: Value, which must not be empty. Cluster autoscaler ignores a managed node group's taint without value,
            and then scales the group up for pods that can't run on it.
        effect: Effect on a pod that doesn't tolerate the taint.

    Raises:
        ValueError: Kubernetes or cluster autoscaler would reject or ignore it.
    """

    key: str
    value: str
    effect: Effect = "NoSchedule"

    def __post_init__(self) -> None:
        who = f"taint {self.key!r}"
        if not isinstance(self.key, str) or not QUALIFIED_NAME.fullmatch(self.key):
            raise ValueError(
                f"{who}: key must be a qualified name, got {self.key!r}; write one such as 'example.com/team'"
            )
        if not isinstance(self.value, str) or not self.value or not LABEL_VALUE.fullmatch(self.value):
            raise ValueError(
                f"{who}: value must be 1 to 63 letters, digits, '-', '_' or '.', got {self.value!r}; write 'true' if "
                "the value has no meaning"
            )
        refuse_unless_choice(who, "effect", self.effect, get_args(Effect))


# Keeps pods that request no GPU off the most expensive nodes.
GPU_TAINT = Taint(key=_GPU_TAINT_KEY, value="true")


def startup_taint(driver: StorageDriver) -> Taint:
    """Return the taint of a new node that a driver removes when it can mount volumes there.

    The drivers recommend ``NoExecute``, and accept any effect. For a node that registers with the taint, both effects
    keep pods away. If EKS adds the taint to the running nodes of a group, ``NoExecute`` would end their training.
    """
    return Taint(key=STARTUP_TAINTS[DRIVER_NAMES[driver]], value="true")


def checked_drivers(who: object, drivers: object) -> tuple[StorageDriver, ...]:
    """Return storage drivers, each once.

    Raises:
        TypeError: The value isn't a list of names.
        ValueError: A driver is unknown, or occurs twice.
    """
    found = words(who, "storage_drivers", drivers)
    for each in found:
        refuse_unless_choice(who, "storage_drivers", each, get_args(StorageDriver))
    if len(set(found)) < len(found):
        raise ValueError(f"{who}: storage_drivers must differ, got {tuple(found)!r}; remove the duplicates")
    return cast("tuple[StorageDriver, ...]", tuple(found))


def checked_taints(who: object, taints: object, *, gpu_taint: object) -> tuple[Taint, ...]:
    """Return taints, without taints that every GPU node has.

    Raises:
        TypeError: The value isn't a list of taints.
        ValueError: A taint occurs twice, or every GPU node has it.
    """
    if not isinstance(taints, (list, tuple)) or not all(isinstance(each, Taint) for each in taints):
        raise TypeError(f"{who}: taints must be a list of Taint, got {taints!r}; write [Taint(key='team', value='a')]")
    found = tuple(taints)
    for each in found:
        if gpu_taint is True and (each.key, each.effect) == (GPU_TAINT.key, GPU_TAINT.effect):
            raise ValueError(
                f"{who}: taints must not contain {each.key}:{each.effect}, which every GPU node has, got {each}; "
                "remove it, or write gpu_taint=False to set another value"
            )
        _refuse_startup_taint(who, each)
    if len({(each.key, each.effect) for each in found}) < len(found):
        raise ValueError(f"{who}: taints must differ in key or effect, got one twice; remove it")
    return found


def _refuse_startup_taint(who: object, taint: Taint) -> None:
    """Reject a taint that a driver removes again, because all pods of the nodes would have to tolerate it."""
    for driver, name in DRIVER_NAMES.items():
        if taint.key == STARTUP_TAINTS[name]:
            raise ValueError(
                f"{who}: taints must not contain {taint.key}, which a storage driver removes, got {taint}; write "
                f"storage_drivers=('{driver}',)"
            )


def labels_of_nodes(who: object, labels: object) -> dict[str, str]:
    """Return node labels as a dict.

    Raises:
        TypeError: ``labels`` isn't a mapping.
        ValueError: The label is invalid on a node, or a node may not set it on itself.
    """
    found = checked_labels(who, labels)
    for key in found:
        _refuse_foreign_label(who, key)
    return found


def _refuse_foreign_label(who: object, key: str) -> None:
    if key in (GPU_PRESENT, ACCELERATOR) or key.startswith(f"{OUR_DOMAIN}/"):
        raise ValueError(f"{who}: labels must not set {key!r}, got it; remove it, because every GPU node has it")
    domain = key.rpartition("/")[0]
    if is_under(key, _FOREIGN_DOMAINS) and domain not in KUBELET_DOMAINS:
        raise ValueError(
            f"{who}: labels must not set {key!r}, because a node may not label itself under {domain!r}, got it; use a "
            "domain of your own"
        )


def checked_tags(tags: object, *, who: str = "node shape") -> dict[str, str]:
    """Return tags of instances and volumes as a dict.

    Raises:
        TypeError: ``tags`` isn't a mapping of strings.
        ValueError: EC2 would reject a tag, or its key is reserved.
    """
    if not isinstance(tags, Mapping) or not all(isinstance(word, str) for pair in tags.items() for word in pair):
        raise TypeError(f"{who}: tags must map keys to values, got {tags!r}; write {{'key': 'value'}}")
    if len(tags) > _MAX_TAGS:
        raise ValueError(
            f"{who}: tags must be at most {_MAX_TAGS}, got {len(tags)}; remove some, because EKS and Karpenter add "
            "others"
        )
    for key, value in tags.items():
        if not 0 < len(key) <= _MAX_KEY or len(value) > _MAX_VALUE:
            raise ValueError(
                f"{who}: tag {key!r} must have 1 to {_MAX_KEY} characters and a value of at most {_MAX_VALUE}, got "
                f"{value!r}; shorten it"
            )
        if key == "Name" or key.lower().startswith(_FOREIGN_TAGS):
            raise ValueError(
                f"{who}: tags must not set {key!r}, which belongs to AWS, Karpenter or this library, got {value!r}; "
                "rename it"
            )
    return dict(tags)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """Settings of the kubelet. Settings that you leave out keep the image's value.

    Attributes:
        max_pods: Max pods of a node. Default: the number of addresses of its network interfaces, at most 110, or 250
            with 30 vCPUs or more.
        kube_reserved: Reservation for Kubernetes' own daemons, e.g. ``{"cpu": "200m", "memory": "2Gi"}``.
        system_reserved: Reservation for the system's daemons, in the same form.
        parallel_image_pulls: Max images that it pulls at once. Default: no limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The kubelet would reject the setting.
    """

    max_pods: int | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict, hash=False)
    system_reserved: Mapping[str, str] = field(default_factory=dict, hash=False)
    parallel_image_pulls: int | None = None

    def __post_init__(self) -> None:
        if self.max_pods is not None:
            refuse_unless_whole_number("kubelet", "max_pods", self.max_pods, least=1)
        if self.parallel_image_pulls is not None:
            refuse_unless_whole_number("kubelet", "parallel_image_pulls", self.parallel_image_pulls, least=1)
        for argument in ("kube_reserved", "system_reserved"):
            object.__setattr__(self, argument, MappingProxyType(_reserved(argument, getattr(self, argument))))

    def config(self) -> dict[str, object]:
        """Return the fields of a ``KubeletConfiguration`` that every kind of pool can set."""
        found: dict[str, object] = {}
        if self.max_pods is not None:
            found["maxPods"] = self.max_pods
        if self.kube_reserved:
            found["kubeReserved"] = dict(self.kube_reserved)
        if self.system_reserved:
            found["systemReserved"] = dict(self.system_reserved)
        return found

    def vcpus_left(self, row: InstanceType) -> float:
        """Return the virtual CPUs that it leaves for all pods, or 0 if they are unknown."""
        if row.vcpus is None:
            return 0
        return max(row.vcpus - self._reserved_amount("cpu", reserved_cpu(row.vcpus)) / 1000, 0)

    def memory_gib_left(self, row: InstanceType) -> int:
        """Return the memory that it leaves for all pods, in GiB, rounded down, or 0 if it is unknown.

        The hypervisor and the kernel use some more, which differs by type.
        """
        return self._gib_left(row, (row.memory_mib or 0) * MIB)

    def expected_memory_gib_left(self, row: InstanceType) -> int:
        """Return the memory that Karpenter expects for all pods before it has launched a node, in GiB, rounded down."""
        return self._gib_left(row, least_memory(row) or 0)

    def _gib_left(self, row: InstanceType, memory: int) -> int:
        kept = self._reserved_amount("memory", reserved_memory(eni_pods(row) or 0)) + EVICTED_MEMORY
        return int(max(memory - kept, 0) // GIB)

    def _reserved_amount(self, name: str, default: int) -> int:
        return resources(self.kube_reserved).get(name, default) + resources(self.system_reserved).get(name, 0)

    def pulls(self) -> dict[str, object]:
        """Return the fields for image pulls, which an EC2NodeClass doesn't have. EKS' images pull in parallel.

        Source: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
        """
        if self.parallel_image_pulls is None:
            return {}
        return {"maxParallelImagePulls": self.parallel_image_pulls}


def _reserved(argument: str, given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"kubelet: {argument} must map resources to quantities, got {given!r}; write {{'memory': '2Gi'}}"
        )
    for resource, quantity in given.items():
        refuse_unless_choice("kubelet", argument, resource, _RESERVABLE)
        if not isinstance(quantity, str) or not _QUANTITY.fullmatch(quantity):
            raise ValueError(
                f"kubelet: {argument}[{resource!r}] must be a quantity, got {quantity!r}; write one such as '2Gi'"
            )
    return dict(given)
