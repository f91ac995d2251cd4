"""Rules for FSx for Lustre, S3 buckets, and the claims that mount them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.quantities import quantity, show
from gpu_facts.refusals import did_you_mean
from gpu_facts.storage import (
    FSX,
    LUSTRE_DEFAULT_TYPE,
    LUSTRE_DEFAULT_VERSIONS,
    LUSTRE_PORTS,
    LUSTRE_THROUGHPUT,
    LUSTRE_VERSION,
    is_lustre_size,
    lustre_sizes,
)
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import has_role, pod_service_account
from gpu_preflight.cluster.network import covers_port, known_groups, rules
from gpu_preflight.cluster.references import referred
from gpu_preflight.cluster.storage import Claimed, is_stateful_set_claim
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.storage import EBS_PROVISIONERS, PersistentVolume
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, items, known_number, known_text, mapping, mappings
from gpu_preflight.rule import Problem, rule
from gpu_preflight.schema.validation import is_slip_for_one

_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html"
_TYPE = "AWS::FSx::FileSystem"
# The newest storage type has no fixed sizes, and other properties set its throughput.
_ELASTIC = "INTELLIGENT_TIERING"
# If a file system is created from a backup, FSx takes all missing settings from the backup.
_OF_A_BACKUP = "BackupId"
_TOO_OLD = "2.10"
_DOCS = "https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs"
# Mountpoint's option names. A volume may write them with or without the leading dashes.
_CACHE, _BOUND = "cache", "max-cache-size"
_OPEN = {"allow-other", "allow_other"}
# For public buckets, which accept unsigned requests.
_ANONYMOUS = "no-sign-request"
_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_ONE_POD = "ReadWriteOncePod"
_ONE_NODE = ("ReadWriteOnce", _ONE_POD)


def _file_systems(cluster: Cluster) -> Iterator[Resource]:
    for each in cluster.resources_of_type(_TYPE):
        if known_text(each.properties.get("FileSystemType")) == "LUSTRE":
            yield each


def _title(file_system: Resource) -> str:
    return f"file system {file_system.path or file_system.key}"


def _kind(file_system: Resource) -> tuple[str | None, str | None]:
    """Return deployment type and storage type; ``None`` if one isn't known."""
    written = file_system.properties.get("LustreConfiguration")
    deployment = LUSTRE_DEFAULT_TYPE if written is None else mapping(written).get("DeploymentType", LUSTRE_DEFAULT_TYPE)
    storage = file_system.properties.get("StorageType", "SSD")
    return (None if isinstance(written, Unknown) else known_text(deployment)), known_text(storage)


@rule("GPU423", "error", source=_API)
def file_system_that_fsx_does_not_make(case: Case) -> Iterator[Problem]:
    """FSx rejects the file system.

    FSx rejects its size, its throughput, its version or its subnets, and the deployment fails.

    Fix: Set a value that the message allows.
    """
    for each in _file_systems(case.cluster):
        for why in (*_size_errors(each), *_throughput_errors(each), *_version_errors(each), *_subnet_errors(each)):
            yield Problem(each, f"{why}", name=_title(each))


def _size_errors(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    size = known_number(file_system.properties.get("StorageCapacity"))
    if size is None or deployment is None or storage is None or storage == _ELASTIC:
        return
    # A backup contains its own type.
    if _OF_A_BACKUP in file_system.properties and "DeploymentType" not in _lustre_configuration(file_system):
        return
    throughput = known_number(_lustre_configuration(file_system).get("PerUnitStorageThroughput"))
    if not is_lustre_size(size, deployment, storage, throughput):
        yield f"StorageCapacity must be {lustre_sizes(deployment, storage, throughput)}, got {size}"


def _throughput_errors(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    sold = LUSTRE_THROUGHPUT.get((deployment or "", storage or ""))
    written = _lustre_configuration(file_system).get("PerUnitStorageThroughput")
    value = known_number(written)
    if sold and written is None and _OF_A_BACKUP not in file_system.properties:
        yield f"PerUnitStorageThroughput is missing, and must be one of {_listed(sold)} with {deployment}"
    elif sold and value is not None and value not in sold:
        yield f"PerUnitStorageThroughput must be one of {_listed(sold)} with {deployment}, got {value}"


def _version_errors(file_system: Resource) -> Iterator[str]:
    deployment, _ = _kind(file_system)
    version = _written_version(file_system)
    if deployment == "PERSISTENT_2" and version == _TOO_OLD:
        yield f"FileSystemTypeVersion must be 2.12 or {LUSTRE_VERSION} with {deployment}, got {version}"


def _subnet_errors(file_system: Resource) -> Iterator[str]:
    subnets = file_system.properties.get("SubnetIds")
    if isinstance(subnets, list) and len(subnets) > 1 and all(isinstance(each, str) for each in subnets):
        yield f"SubnetIds must be one subnet, got {len(subnets)}"


def _lustre_configuration(file_system: Resource) -> dict[str, object]:
    return dict(mapping(file_system.properties.get("LustreConfiguration")))


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _written_version(file_system: Resource) -> str | None:
    """Return the version in a template; YAML reads it as a number if it isn't quoted."""
    written = file_system.properties.get("FileSystemTypeVersion")
    return f"{written:.2f}" if isinstance(written, float) else known_text(written)


def _version(file_system: Resource) -> str | None:
    """Return the Lustre version; ``None`` if it isn't known."""
    if file_system.properties.get("FileSystemTypeVersion") is not None:
        return _written_version(file_system)
    deployment, _ = _kind(file_system)
    return None if _OF_A_BACKUP in file_system.properties else LUSTRE_DEFAULT_VERSIONS.get(deployment or "")


def _mounted(case: Case) -> Iterator[tuple[Workload, Resource]]:
    """Yield each GPU workload with each file system of the input that it mounts."""
    resources = case.cluster.resources
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        found = referred(volume.handle, resources) if volume is not None and volume.driver == FSX else None
        if found is not None and found.type == _TYPE:
            yield workload, found


@rule("GPU424", "error", source="https://github.com/kubernetes-sigs/aws-fsx-csi-driver/issues/437")
def file_system_older_than_what_nodes_speak(case: Case) -> Iterator[Problem]:
    """Lustre version is too old for the nodes.

    The Lustre client of AL2023 can't mount version 2.10, which is FSx's default if no version is set. mount.lustre
    fails with "Invalid argument", and the pod stays in ContainerCreating with its GPUs.

    Fix: Set FileSystemTypeVersion: "2.15".
    """
    for workload, file_system in _mounted(case):
        pools = case.candidate_pools(workload)
        if _version(file_system) == _TOO_OLD and pools and all(each.operating_system == "al2023" for each in pools):
            text = f"mounts {_title(file_system)} with Lustre {_TOO_OLD}, which its AL2023 nodes can't mount"
            yield Problem.from_subject(workload, text)


@rule("GPU425", "error", source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html")
def file_system_whose_ports_are_closed(case: Case) -> Iterator[Problem]:
    """Security groups of the file system block Lustre's ports.

    FSx doesn't create a file system whose security groups don't allow inbound TCP 988. Without ports 1018 to 1023,
    mounts hang.

    Fix: Allow inbound TCP 988 and 1018-1023, from the security groups of the nodes and from the file system's group
    itself.
    """
    resources = case.cluster.resources
    for each in _file_systems(case.cluster):
        groups = known_groups(items(each.properties.get("SecurityGroupIds")), resources)
        opened = [rules(group, "Ingress", resources) for group in groups or ()]
        if not opened or None in opened:
            continue
        known = [one for listed in opened for one in listed or ()]
        closed = [first for first, _ in LUSTRE_PORTS if not any(covers_port(one, first) for one in known)]
        if closed:
            text = f"none of its security groups allows inbound TCP {' or '.join(map(_range, closed))}"
            yield Problem(each, text, name=_title(each))


def _range(first: int) -> str:
    last = dict(LUSTRE_PORTS)[first]
    return str(first) if first == last else f"{first}-{last}"


@rule("GPU426", "warning", source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/how-it-works-fsx-lustre.html")
def file_system_of_another_zone_than_its_pods(case: Case) -> Iterator[Problem]:
    """File system is in another zone than its pods.

    A file system is in one zone. Reads and writes from another zone are slower, and AWS bills them by the GB.

    Fix: Create the file system in a zone of the pool, or the nodes in the file system's zone.
    """
    resources = case.cluster.resources
    for workload, file_system in _mounted(case):
        listed = items(file_system.properties.get("SubnetIds"))
        subnet = referred(listed[0], resources) if len(listed) == 1 else None
        zone = subnet.properties.get("AvailabilityZone") if subnet is not None else None
        pools = case.candidate_pools(workload)
        if isinstance(zone, str) and pools and all(_is_elsewhere(each, zone) for each in pools):
            there = ", ".join(sorted(_zones(pools)))
            text = f"mounts {_title(file_system)} in {zone}, but runs in {there}, so access is slower and AWS bills"
            yield Problem.from_subject(workload, f"{text} cross-zone traffic")


def _is_elsewhere(pool: Pool, zone: str) -> bool:
    known = bool(pool.zones) and all(isinstance(each, str) for each in pool.zones)
    return known and zone not in pool.zones


def _zones(pools: tuple[Pool, ...]) -> set[str]:
    return {str(zone) for each in pools for zone in each.zones}


@rule("GPU402", "warning", source="https://github.com/kubernetes/kubernetes/issues/132921")
def one_handle_of_two_buckets(case: Case) -> Iterator[Problem]:
    """Two buckets have the same volume handle.

    Kubernetes identifies a volume by its handle. A pod with both volumes hangs in ContainerCreating, or sees one bucket
    in both. Pods with one of them each run, but the scheduler counts their volumes as one.

    Fix: Give each PersistentVolume a unique volumeHandle, for example its name.
    """
    seen: dict[str, PersistentVolume] = {}
    for each in case.cluster.volumes:
        if each.is_bucket and isinstance(each.handle, str):
            other = seen.setdefault(each.handle, each)
            if other.title != each.title:
                text = f"{each.title}: {other.title} has the same volumeHandle {each.handle}"
                text += ", so Kubernetes treats them as one volume"
                yield Problem(each.object, text)


@rule("GPU403", "warning", source=f"{_DOCS}/CACHING.md")
def cache_of_a_bucket_without_a_bound(case: Case) -> Iterator[Problem]:
    """Cache of a bucket has no size limit.

    The cache grows on the node's storage with every file that a pod reads, until kubelet evicts pods.

    Fix: Set cacheEmptyDirSizeLimit in volumeAttributes, for example to 100Gi.
    """
    for each in case.cluster.volumes:
        attributes, options = each.attributes, each.options
        if not each.is_bucket or attributes is None or options is None:
            continue
        if _is_cached(attributes, options) and _BOUND not in options:
            by_option = attributes.get("cache") is None
            fix = "Add max-cache-size to mountOptions, in MiB, for example max-cache-size 102400." if by_option else ""
            yield Problem(each.object, f"{each.title}: its cache has no size limit and may fill the node's disk", fix)


@rule("GPU404", "warning", source="https://github.com/awslabs/mountpoint-s3-csi-driver/issues/134")
def bucket_that_the_user_of_a_pod_may_not_read(case: Case) -> Iterator[Problem]:
    """Pod's user isn't allowed to read the bucket.

    Without allow-other, only root can access the mount. The program fails with "permission denied".

    Fix: Add allow-other to the volume's mountOptions, and uid and gid if the pod writes.
    """
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        if volume is None or not volume.is_bucket or volume.options is None:
            continue
        user = _user(workload.pod)
        if user is not None and not _OPEN & {*volume.options}:
            text = f"runs as user {user}, but only root can read {volume.title} without mount option allow-other"
            yield Problem.from_subject(workload, text)


@rule("GPU414", "error", source=f"{_DOCS}/CONFIGURATION.md")
def bucket_of_a_service_account_without_a_role(case: Case) -> Iterator[Problem]:
    """Bucket is mounted with the role of a service account that has none.

    With authenticationSource: pod, the driver mounts with the pod's service account, and not with the role of driver or
    node. The mount is denied, and the pod stays in ContainerCreating with its GPUs.

    Fix: Associate a role with the service account by EKS Pod Identity, or annotate the service account with a role for
    IRSA, or remove authenticationSource: pod from the volume to use the driver's role.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        volume, account = claim.volume, pod_service_account(workload)
        if not cluster.whole or volume is None or not _is_mounted_by_pod(volume) or account is None:
            continue
        answer = has_role(account, cluster)
        if answer is not Answer.YES:
            name = "/".join(account)
            text = (
                f"{volume.title} has authenticationSource: pod, but service account {name} has no IAM role, so S3 "
                "denies the mount"
            )
            yield Problem.from_subject(workload, text, unknown=answer is Answer.UNKNOWN)


def _is_mounted_by_pod(volume: PersistentVolume) -> bool:
    by_pod = volume.is_bucket and (volume.attributes or {}).get("authenticationSource") == "pod"
    return by_pod and _ANONYMOUS not in (volume.options or ())


def _user(pod: Pod) -> int | None:
    """Return a user that a pod runs as, if no container runs as root and fsGroup isn't set."""
    whole = mapping(pod.written.get("securityContext"))
    own = [mapping(each.get("securityContext")) for each in mappings(pod.written.get("containers"))]
    users = [each.get("runAsUser", whole.get("runAsUser")) for each in own]
    known = [each for each in users if isinstance(each, int) and each > 0]
    # The driver opens the mount for fsGroup by itself.
    return known[0] if known and len(known) == len(users) and whole.get("fsGroup") is None else None


def _is_cached(attributes: Mapping[str, Any], options: tuple[str, ...]) -> bool:
    """Whether a cache on the node has no size limit; older volumes enable the cache by a mount option."""
    kind = attributes.get("cache")
    enabled = kind == "emptyDir" or (kind is None and _CACHE in options)
    return enabled and not attributes.get("cacheEmptyDirSizeLimit")


@rule("GPU320", "error", source=_VOLUMES)
def claim_of_storage_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """PersistentVolumeClaim doesn't exist.

    The pod stays Pending until the PersistentVolumeClaim exists in its namespace. It may be created outside the input.
    The result is certain only if the name must be a typo of an existing one.

    Fix: Create the claim in the pod's namespace, or correct the name.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        if claim.name is None or claim.spec is not None or is_stateful_set_claim(claim.name, workload, cluster):
            continue
        name, beside = f"{workload.namespace}/{claim.name}", _claims_beside(workload, cluster)
        if cluster.whole:
            hint = did_you_mean(claim.name, beside) or _elsewhere(claim.name, cluster)
            text = f"PersistentVolumeClaim {name} doesn't exist{hint}"
            yield Problem.from_subject(
                workload, text, unknown=not cluster.sees_objects or not is_slip_for_one(claim.name, beside)
            )
        elif beside:
            # The cluster isn't in the input, so it may have more claims.
            text = f"PersistentVolumeClaim {name} isn't in the input, which has {', '.join(beside)} in this namespace"
            yield Problem.from_subject(workload, f"{text}{did_you_mean(claim.name, beside)}", unknown=True)


def _claims_beside(workload: Workload, cluster: Cluster) -> list[str]:
    return sorted(name for namespace, name in cluster.volume_claims if namespace == workload.namespace)


def _elsewhere(name: str, cluster: Cluster) -> str:
    spaces = [each.namespace for each in cluster.objects_of_kind("PersistentVolumeClaim") if each.name == name]
    return f"; namespace {spaces[-1]} has one" if spaces else ""


@rule("GPU322", "error", source=_VOLUMES)
def disk_of_one_node_for_pods_on_several(case: Case) -> Iterator[Problem]:
    """Pods on several nodes share a disk that only one node can use.

    An EBS volume is attached to one node. Pods on other nodes hang in ContainerCreating with a Multi-Attach error.

    Fix: Give each pod its own claim by a StatefulSet, or share files by EFS, FSx or S3.
    """
    for workload, claim in case.gpu_claims:
        replicas = workload.replicas
        if claim.name is None or claim.spec is None or replicas is None or replicas < 2 or workload.takes_turns:
            continue
        modes = claim.modes
        if modes == [_ONE_POD]:
            # Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/volumerestrictions/
            text = f"{replicas} pods share {claim.title}, which is {_ONE_POD}, so the second pod stays Pending"
            yield Problem.from_subject(workload, text)
            continue
        if not modes or any(isinstance(each, Unknown) or each not in _ONE_NODE for each in modes):
            continue
        if not claim.is_ebs:
            continue
        together = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        apart = bool(together) and all(each is not None and each < replicas for each in together)
        names = " and ".join(map(str, modes))
        share = f"{replicas} pods on several nodes share {claim.title}, an EBS volume with access mode {names}"
        text = f"{share}, which only one node can attach"
        yield Problem.from_subject(workload, text, unknown=not apart)


@rule("GPU323", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2178")
def access_mode_that_the_driver_does_not_have(case: Case) -> Iterator[Problem]:
    """EBS driver doesn't support the access mode.

    The driver rejects the volume. EBS supports ReadWriteMany only for raw block devices, and never ReadOnlyMany.

    Fix: Use ReadWriteOnce, or a StorageClass of EFS, FSx or S3.
    """
    for workload, claim in case.gpu_claims:
        if claim.spec is None or not claim.is_ebs:
            continue
        block = claim.spec.get("volumeMode") == "Block"
        wrong = [each for each in claim.modes if each == "ReadOnlyMany" or (each == "ReadWriteMany" and not block)]
        if wrong:
            yield Problem.from_subject(
                workload,
                f"{claim.title} has access mode {' and '.join(wrong)}, which an EBS volume with a file system doesn't "
                "support",
            )


@rule("GPU325", "error", source=_VOLUMES)
def claim_that_its_volume_does_not_meet(case: Case) -> Iterator[Problem]:
    """PersistentVolumeClaim doesn't match its volume.

    Kubernetes doesn't bind the two, and the pod stays Pending.

    Fix: Give claim and volume the same class and access modes, and the volume at least the size of the claim.
    """
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        if claim.spec is None or volume is None:
            continue
        for why, fix in _differs(claim, volume, workload):
            yield Problem.from_subject(workload, f"{claim.title} can't bind to {volume.title}: {why}", fix=fix)


def _differs(claim: Claimed, volume: PersistentVolume, workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield how a claim and its volume differ, and the fix."""
    ours, theirs = (claim.spec or {}).get("storageClassName"), volume.class_name
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        text = f"the volume's class is {theirs or 'empty'}, but the claim's class is {ours or 'empty'}"
        yield text, "Give claim and volume the same storageClassName."
    offered = volume.object.spec.get("accessModes")
    if isinstance(offered, list) and (lacking := [each for each in claim.modes if each not in offered]):
        modes = ", ".join(map(str, lacking))
        yield f"the volume doesn't support access mode {modes}", f"Use an access mode of the volume instead of {modes}."
    has = quantity("memory", dig(volume.object.spec, "capacity", "storage"))
    if claim.size is not None and has is not None and claim.size > has:
        text = f"the claim requests {show('memory', claim.size)}, but the volume has {show('memory', has)}"
        yield text, f"Set the claim's request of storage to {show('memory', has)} or less."
    name, space = (known_text(volume.claim.get(key)) for key in ("name", "namespace"))
    space = space or workload.namespace
    if name and claim.name and (space, name) != (workload.namespace, claim.name):
        text = f"the volume is reserved for claim {space}/{name}"
        yield text, f"Set claimRef of the volume to {workload.namespace}/{claim.name}, or create another volume."


@rule("GPU326", "warning", source=_VOLUMES)
def one_disk_under_two_volumes(case: Case) -> Iterator[Problem]:
    """Two volumes use the same disk.

    A disk is attached to one node. A pod with the other volume hangs, or both overwrite each other's data.

    Fix: Create a disk for each volume, or let both pods use one claim on one node.
    """
    seen: dict[str, PersistentVolume] = {}
    for volume in case.cluster.volumes:
        handle = volume.handle
        if not isinstance(handle, str) or volume.driver not in EBS_PROVISIONERS:
            continue
        if handle in seen:
            text = f"{volume.title}: {seen[handle].title} uses the same disk {handle}, so their pods may hang or "
            yield Problem(volume.object, text + "overwrite each other's data")
        seen.setdefault(handle, volume)
