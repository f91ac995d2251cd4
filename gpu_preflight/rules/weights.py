"""Rules for model weights that don't reach the pod that serves them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from gpu_facts.light import regex
from gpu_facts.versions import WITH_IMAGE_VOLUMES
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import ROLE_ANNOTATION, allows, has_role, is_associated, node_role, pod_service_account
from gpu_preflight.cluster.pools import is_one_hop, is_visible
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.model.answer import Answer, all_yes
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.container import Container, Mount
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.rule import Problem, rule

_POD_IDENTITY = "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html"
_IN_S3 = regex(r"\bs3://[a-z0-9$]")
_ANONYMOUS = "--no-sign-request"
# The option of a bucket that Mountpoint mounts.
_READ_ONLY = "read-only"
# Programs that need credentials for S3 unless an option disables them. Others may read public buckets without.
_SIGNS = regex(r"(?:^|[\s/;&|(])(?:aws|aws-cli|s5cmd)(?=[\s:@]|$)")
# Variables that set credentials, or another store than S3.
_OTHERWISE = regex(r"AWS_(ACCESS_KEY_ID|PROFILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|ROLE_ARN|ENDPOINT_URL\w*)|S3_.*")
# Paths that may contain the folder .aws of a container's user. Inline volumes of a driver may contain anything.
_HOME = regex(r"/(root|home(/[^/]+)?)?|.*/\.aws(/.*)?")
# Annotations by which Vault's injectors, kube2iam and kiam provide credentials to pods.
# Sources: https://developer.hashicorp.com/vault/docs/platform/k8s/injector/annotations,
# https://bank-vaults.dev/docs/mutating-webhook/annotations/, https://github.com/jtblin/kube2iam (2026-11)
_GIVEN = regex(
    r"vault\.hashicorp\.com/agent-inject|vault\.security\.banzaicloud\.io/.+|iam\.amazonaws\.com/role"
    r"|secrets-webhook\.security\.bank-vaults\.io/.+"
)
# Words of a command that loads credentials itself, or uses another store than S3.
_LOOKS = regex(
    r"AWS_(ACCESS_KEY_ID|PROFILE|DEFAULT_PROFILE|SHARED_CREDENTIALS_FILE|CONFIG_FILE|ROLE_ARN|ENDPOINT_URL)"
    r"|--(profile|credentials-file|endpoint-url)(?![\w-])|\bassume-role|\baws configure\b|\beval\b"
    r"|(?:^|[;&|({\n]|\bthen\b|\bdo\b)\s*(?:\.|source)\s+\S"
)
# The first version of a program, by its image, that supports Pod Identity. s5cmd has no such release yet, and
# its next release isn't known.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html,
# https://github.com/peak/s5cmd/issues/807 (2026-11)
_KNOWS_FROM: Mapping[str, tuple[int, ...]] = {
    "amazon/aws-cli": (2, 15, 0),
    "aws-cli/aws-cli": (2, 15, 0),
    "peakcom/s5cmd": (2, 3, 1),
}
_IMAGE = regex(r"(?:^|/)(?P<name>[a-z0-9-]+/[a-z0-9-]+)(?::v?(?P<version>\d+(?:\.\d+){1,3}))?(?:@.*)?$")


@rule("GPU415", "error", source="https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/")
def image_volume_that_the_cluster_drops(case: Case) -> Iterator[Problem]:
    """API server removes the image volume from the pod.

    Before Kubernetes 1.35, the API server accepts the pod without the volume and its mounts, and without a warning. The
    server starts and finds no model.

    Fix: Use Kubernetes 1.35 or later, copy the files in an init container, or mount a PersistentVolumeClaim.
    """
    version = case.cluster.version
    if version is None or not (0, 0) < minor(version) < WITH_IMAGE_VOLUMES:
        return
    for workload in case.cluster.workloads:
        for each in workload.pod.volumes:
            if isinstance(each.source.get("image"), dict):
                text = (
                    f"Kubernetes {version} doesn't enable image volumes, so the API server removes volume {each.name} "
                    "and its mounts, and the container starts without the files"
                )
                yield Problem.from_subject(workload, text)


@rule("GPU416", "error", source=_POD_IDENTITY)
def program_that_knows_no_pod_identity(case: Case) -> Iterator[Problem]:
    """Program doesn't support Pod Identity.

    The program is older than EKS Pod Identity and rejects its credentials endpoint ("only loopback hosts are allowed").
    The container fails without credentials, before a byte is copied.

    Fix: Use AWS CLI 2.15.0 or later, or give the service account a role by IRSA.
    """
    for workload, container in _containers(case):
        too_old = _too_old(container)
        if too_old is None:
            continue
        answer = _uses_only_pod_identity(workload, container, case.cluster)
        if answer is not Answer.NO:
            text = f"container {container.name} runs {too_old}, which can't get credentials from EKS Pod Identity"
            yield Problem.from_subject(workload, text, unknown=answer is Answer.UNKNOWN)


@rule("GPU417", "warning", source="https://github.com/kubernetes/kubernetes/issues/121294")
def mount_below_one_that_nobody_may_write(case: Case) -> Iterator[Problem]:
    """Mount is below a read-only mount.

    The container runtime can't create the folder for it. Unless the volume above has the folder, the container doesn't
    start ("read-only file system"), and the pod keeps its GPUs.

    Fix: Mount the inner volume at a path outside the read-only mount, or create its folder in the read-only volume.
    """
    for workload, container in _containers(case):
        for below, above in _nested(container):
            if _lacks_folders(above, workload, case.cluster):
                text = (
                    f"container {container.name} mounts {below} below {above.path}, which is read-only, so the "
                    "container may not start"
                )
                yield Problem.from_subject(workload, text)


@rule("GPU418", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html")
def objects_of_s3_for_pods_without_a_role(case: Case) -> Iterator[Problem]:
    """Pod that reads from S3 has no IAM role.

    The pod gets no credentials. The metadata service, which has the node's credentials, is one hop too far, or the node
    isn't allowed to read the objects either. The container fails, or the server never loads its model.

    Fix: Associate a role that is allowed to read the bucket with the service account by EKS Pod Identity.
    """
    if not case.cluster.whole:
        return
    for workload, container in _containers(case):
        account = pod_service_account(workload)
        if account is None or _brings_credentials(workload.pod) or not _reads_s3(container):
            continue
        answer = has_role(account, case.cluster)
        if answer is not Answer.YES and not _nodes_may_read(workload, case):
            text = f"container {container.name} reads from S3, but service account {'/'.join(account)} has no IAM role"
            if case.candidate_pools(workload):
                text += ", and the pod can't use a node role that may read S3"
            unknown = answer is Answer.UNKNOWN or not _signs(container) or _may_have_others(workload, container)
            yield Problem.from_subject(workload, text, unknown=unknown)


def _containers(case: Case) -> Iterator[tuple[Workload, Container]]:
    for workload in case.gpu_workloads:
        for container in workload.containers:
            yield workload, container


def _reads_s3(container: Container) -> bool:
    texts = list(map(str, container.words))
    return any(map(_IN_S3.search, texts)) and not any(_ANONYMOUS in each for each in texts)


def _signs(container: Container) -> bool:
    return any(map(_SIGNS.search, (container.image_text, *map(str, container.words))))


def _too_old(container: Container) -> str | None:
    """Return program and version of a container that reads S3 but doesn't support Pod Identity."""
    found = _IMAGE.search(container.image_text)
    least = _KNOWS_FROM.get(found["name"]) if found else None
    if found is None or found["version"] is None or least is None or not _reads_s3(container):
        return None
    version = tuple(map(int, found["version"].split(".")))
    return f"{found['name']} {found['version']}" if version < least[: len(version)] else None


def _uses_only_pod_identity(workload: Workload, container: Container, cluster: Cluster) -> Answer:
    account = pod_service_account(workload)
    if account is None or _brings_credentials(workload.pod):
        return Answer.NO
    written = [each for each in cluster.objects_of_kind("ServiceAccount") if (each.namespace, each.name) == account]
    if any(each.annotations.get(ROLE_ANNOTATION) for each in written):
        return Answer.NO
    # A service account that is created elsewhere may have the annotation.
    seen = bool(written) and not _may_have_others(workload, container)
    return all_yes((is_associated(account, cluster), Answer.YES if seen else Answer.UNKNOWN))


def _brings_credentials(pod: Pod) -> bool:
    """Whether a pod may have its own credentials, or uses another store."""
    if any(_OTHERWISE.fullmatch(name) for each in pod.every_container for name in each.env):
        return True
    # Keys and files of a Secret may contain credentials.
    return any(each.has_env_from for each in pod.every_container) or any(
        each.source.get("secret") or each.source.get("projected") for each in pod.volumes
    )


def _may_have_others(workload: Workload, container: Container) -> bool:
    """Whether a container may get credentials from a volume, a mutating webhook, or its own script."""
    home = known_text(container.env.get("HOME"))
    at_home = any(path == home or _HOME.fullmatch(path) for path in map(posixpath.normpath, container.mounts))
    inline = any(each.source.get("csi") for each in workload.pod.volumes)
    given = any(_GIVEN.fullmatch(name) and str(value) != "false" for name, value in workload.annotations.items())
    return at_home or inline or given or any(map(_LOOKS.search, map(str, container.words)))


def _nodes_may_read(workload: Workload, case: Case) -> bool:
    """Whether the role of a node that the pod may run on may be allowed to read S3."""
    return any(_may_lend(pool, workload.pod, case.cluster) for pool in case.candidate_pools(workload))


def _may_lend(pool: Pool, pod: Pod, cluster: Cluster) -> bool:
    if is_visible(pool) and is_one_hop(pool) and not pod.host_network:
        return False
    role = node_role(pool, cluster.resources)
    return role is None or allows(role, "s3:GetObject", cluster.resources) is not Answer.NO


def _nested(container: Container) -> Iterator[tuple[str, Mount]]:
    """Yield the path of each mount of a container that is below another one, and the nearest mount above."""
    mounts = {posixpath.normpath(each.path): each for each in container.volume_mounts or () if each.path}
    for below in mounts:
        above = next((mounts[each] for each in _parents(below) if each in mounts), None)
        if above is not None:
            yield below, above


def _parents(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) not in ("", "/"):
        yield path


def _lacks_folders(mount: Mount, workload: Workload, cluster: Cluster) -> bool:
    """Whether a mount is read-only, and its volume most likely has no folder for another mount.

    kubelet creates folders in volumes that it fills itself. Objects of S3 and volumes of claims may have them.

    Source: kubernetes/kubernetes v1.36.3 pkg/volume/util/nested_volumes.go ``MakeNestedMountpoints``
    """
    volume = {each.name: each for each in workload.pod.volumes}.get(mount.volume)
    if volume is None or isinstance(volume.source.get("image"), dict):
        return volume is not None
    if isinstance(volume.source.get("emptyDir"), dict):
        mounts = [one for each in workload.containers for one in each.volume_mounts or ()]
        return mount.read_only and all(each.read_only for each in mounts if each.volume == mount.volume)
    buckets = (each.volume for each in claimed(workload, cluster) if volume.claim and each.name == volume.claim)
    return any(
        each.is_bucket and (mount.read_only or _READ_ONLY in (each.options or ()))
        for each in buckets
        if each is not None
    )
