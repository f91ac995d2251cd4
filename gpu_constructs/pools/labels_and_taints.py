"""Taints, labels and tags that users set on nodes, and the startup taints of storage drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

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
from gpu_facts.refusals import refuse_unless_choice, words
from gpu_facts.storage import EBS, FSX, S3, STARTUP_TAINTS

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
