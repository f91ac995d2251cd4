"""Labels and tags that a user gives to nodes, and which of them others own."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_facts.kubernetes import KUBELET_DOMAINS, RESTRICTED_DOMAINS, checked_labels, is_under
from gpu_facts.labels import (
    ACCELERATOR,
    CLUSTER_TAG,
    EKS_DOMAIN,
    GPU_PRESENT,
    KARPENTER_AWS_DOMAIN,
    KARPENTER_DOMAIN,
    OUR_DOMAIN,
)

# Label prefixes that kubelet may not set on its own node, that EKS or Karpenter own, or that are ours.
# Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
_FOREIGN_DOMAINS = (*RESTRICTED_DOMAINS, EKS_DOMAIN, KARPENTER_DOMAIN, KARPENTER_AWS_DOMAIN)

# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html, EC2NodeClass CRD of Karpenter v1.14.1
_MAX_TAGS, _MAX_KEY, _MAX_VALUE = 40, 128, 256
_FOREIGN_TAGS = ("aws:", "eks:", CLUSTER_TAG.rstrip("/"), f"{KARPENTER_DOMAIN}/", f"{KARPENTER_AWS_DOMAIN}/")


def labels_of_nodes(who: object, labels: object) -> dict[str, str]:
    """Return node labels as a dict.

    Raises:
        TypeError: ``labels`` is no mapping.
        ValueError: A node cannot have such a label, or does not give it to itself.
    """
    found = checked_labels(who, labels)
    for key in found:
        _refuse_foreign_label(who, key)
    return found


def _refuse_foreign_label(who: object, key: str) -> None:
    if key in (GPU_PRESENT, ACCELERATOR) or key.startswith(f"{OUR_DOMAIN}/"):
        raise ValueError(f"{who}: labels must not set {key!r}; every GPU node gets it by itself")
    domain = key.rpartition("/")[0]
    if is_under(key, _FOREIGN_DOMAINS) and domain not in KUBELET_DOMAINS:
        raise ValueError(
            f"{who}: labels must not set {key!r}, because a node may not label itself under {domain!r}; "
            "use a domain of your own"
        )


def checked_tags(tags: object, *, who: str = "node shape") -> dict[str, str]:
    """Return tags of instances and volumes as a dict.

    Raises:
        TypeError: ``tags`` is no mapping of strings.
        ValueError: EC2 would refuse a tag, or somebody else owns it.
    """
    if not isinstance(tags, Mapping) or not all(isinstance(word, str) for pair in tags.items() for word in pair):
        raise TypeError(f"{who}: tags must map keys to values, got {tags!r}")
    if len(tags) > _MAX_TAGS:
        raise ValueError(f"{who}: tags must be at most {_MAX_TAGS}, got {len(tags)}; others tag the nodes too")
    for key, value in tags.items():
        if not 0 < len(key) <= _MAX_KEY or len(value) > _MAX_VALUE:
            raise ValueError(
                f"{who}: tag {key!r} must have 1 to {_MAX_KEY} characters and a value of at most {_MAX_VALUE}, "
                f"got {value!r}"
            )
        if key == "Name" or key.lower().startswith(_FOREIGN_TAGS):
            raise ValueError(f"{who}: tags must not set {key!r}, which belongs to AWS, Karpenter or this library")
    return dict(tags)
