"""Buckets that pods mount by Mountpoint for Amazon S3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.storage import S3
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import account_of, has_role
from gpu_preflight.cluster.objects.storage import is_bucket, option_names, volume_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_DOCS = "https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs"
# Mountpoint's own names of it, which a volume may write with or without the dashes of a command line.
_CACHE, _BOUND = "cache", "max-cache-size"
_OPEN = {"allow-other", "allow_other"}
# Of a public bucket, which takes requests of nobody.
_ANONYMOUS = "no-sign-request"


def _buckets(cluster: Cluster) -> Iterator[Object]:
    for each in cluster.of_kind("PersistentVolume"):
        if is_bucket(each):
            yield each


@rule("GPU402", "warning", source="https://github.com/kubernetes/kubernetes/issues/132921")
def one_handle_of_two_buckets(case: Case) -> Iterator[Problem]:
    """One handle of two buckets.

    Kubernetes knows a volume by its handle: a pod with both hangs in ContainerCreating, or sees one bucket in both.
    Pods with one of them each run, and the scheduler counts their volumes as one.

    Fix: Give each PersistentVolume a volumeHandle of its own, for example its name.
    """
    seen: dict[str, Object] = {}
    for each in _buckets(case.cluster):
        handle = known_text(dig(dict(each.spec), "csi", "volumeHandle"))
        if handle is None:
            continue
        other = seen.setdefault(handle, each)
        if other.name != each.name:
            text = f"PersistentVolume {each.name}: its handle {handle} is that of PersistentVolume {other.name}"
            yield Problem(each, text)


@rule("GPU403", "warning", source=f"{_DOCS}/CACHING.md")
def cache_of_a_bucket_without_a_bound(case: Case) -> Iterator[Problem]:
    """Cache of a bucket without a bound.

    It grows on the node's storage with every file that is read, until kubelet evicts pods.

    Fix: Set cacheEmptyDirSizeLimit beside cache: emptyDir.
    """
    for each in _buckets(case.cluster):
        attributes, options = dig(dict(each.spec), "csi", "volumeAttributes"), each.spec.get("mountOptions")
        if isinstance(attributes, Unknown) or isinstance(options, Unknown):
            continue
        if _is_cached(mapping(attributes), option_names(options)) and _BOUND not in option_names(options):
            yield Problem(each, f"PersistentVolume {each.name}: its cache may fill the node")


@rule("GPU404", "warning", source="https://github.com/awslabs/mountpoint-s3-csi-driver/issues/134")
def bucket_that_the_user_of_a_pod_may_not_read(case: Case) -> Iterator[Problem]:
    """Bucket that the user of a pod may not read.

    Without allow-other the mount answers root alone; the program ends with permission denied.

    Fix: Add allow-other to the volume's mountOptions, and uid and gid where the pod writes.
    """
    for workload, claim in case.gpu_claims:
        volume = volume_of(claim, case.cluster)
        if volume is None or not is_bucket(volume):
            continue
        options = volume.spec.get("mountOptions")
        user = _user(workload.pod)
        if user is not None and not isinstance(options, Unknown) and not _OPEN & {*option_names(options)}:
            yield Problem.of(workload, f"runs as user {user}, and PersistentVolume {volume.name} lets root alone read")


@rule("GPU414", "error", source=f"{_DOCS}/CONFIGURATION.md")
def bucket_of_a_service_account_without_a_role(case: Case) -> Iterator[Problem]:
    """Bucket of a service account without a role.

    With authenticationSource: pod the driver mounts as the pod's service account, and with no role of driver or node
    instead: the mount is denied, and the pod stays in ContainerCreating with its GPUs.

    Fix: Associate a role with the service account by EKS Pod Identity, or annotate the account with one for IRSA.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        volume, account = volume_of(claim, cluster), account_of(workload)
        if not cluster.whole or volume is None or not _is_mounted_by_pod(volume) or account is None:
            continue
        answer = has_role(account, cluster)
        if answer is not Answer.YES:
            text = f"no role is given to service account {'/'.join(account)}, which mounts PersistentVolume"
            yield Problem.of(workload, f"{text} {volume.name}", unknown=answer is Answer.UNKNOWN)


def _is_mounted_by_pod(volume: Object) -> bool:
    csi = mapping(volume.spec.get("csi"))
    by_pod = csi.get("driver") == S3 and mapping(csi.get("volumeAttributes")).get("authenticationSource") == "pod"
    return by_pod and _ANONYMOUS not in option_names(volume.spec.get("mountOptions"))


def _user(pod: Pod) -> int | None:
    """Return a user that a pod runs as, when none of its containers is root's and no group of files is set."""
    whole = mapping(pod.written.get("securityContext"))
    own = [mapping(each.get("securityContext")) for each in mappings(pod.written.get("containers"))]
    users = [each.get("runAsUser", whole.get("runAsUser")) for each in own]
    known = [each for each in users if isinstance(each, int) and each > 0]
    # The driver opens the mount for fsGroup by itself.
    return known[0] if known and len(known) == len(users) and whole.get("fsGroup") is None else None


def _is_cached(attributes: Any, options: list[str]) -> bool:
    """Whether there is a cache on the node without a bound; older volumes ask for it by a mount option."""
    kind = attributes.get("cache")
    asked = kind == "emptyDir" or (kind is None and _CACHE in options)
    return asked and not attributes.get("cacheEmptyDirSizeLimit")
