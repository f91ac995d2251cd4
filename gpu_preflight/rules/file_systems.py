"""FSx for Lustre, buckets, and the claims that mount them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.hardware.lustre import DEFAULT_TYPE, DEFAULT_VERSIONS, PORTS, THROUGHPUT, VERSION, is_size, sizes
from gpu_facts.quantities import quantity
from gpu_facts.refusals import did_you_mean
from gpu_facts.storage import FSX
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
from gpu_preflight.schema.fault import is_slip_for_one

_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html"
_TYPE = "AWS::FSx::FileSystem"
# Sizes of the newest kind of disk have no steps, and its throughput is said otherwise.
_ELASTIC = "INTELLIGENT_TIERING"
# Of a file system that is made of a backup FSx knows all that is not said.
_OF_A_BACKUP = "BackupId"
_TOO_OLD = "2.10"
_DOCS = "https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs"
# Mountpoint's own names of it, which a volume may write with or without the dashes of a command line.
_CACHE, _BOUND = "cache", "max-cache-size"
_OPEN = {"allow-other", "allow_other"}
# Of a public bucket, which takes requests of nobody.
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
    """Return deployment type and kind of disk, ``None`` where one is not known."""
    told = file_system.properties.get("LustreConfiguration")
    deployment = DEFAULT_TYPE if told is None else mapping(told).get("DeploymentType", DEFAULT_TYPE)
    storage = file_system.properties.get("StorageType", "SSD")
    return (None if isinstance(told, Unknown) else known_text(deployment)), known_text(storage)


@rule("GPU423", "error", source=_API)
def file_system_that_fsx_does_not_make(case: Case) -> Iterator[Problem]:
    """File system that FSx does not make.

    CreateFileSystem refuses its size, its throughput, its version or its subnets, and the deployment fails.

    Fix: Write the value that the message names.
    """
    for each in _file_systems(case.cluster):
        for why in (*_size_errors(each), *_throughput_errors(each), *_version_errors(each), *_subnet_errors(each)):
            yield Problem(each, f"{why}", name=_title(each))


def _size_errors(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    size = known_number(file_system.properties.get("StorageCapacity"))
    if size is None or deployment is None or storage is None or storage == _ELASTIC:
        return
    # A backup says itself of what kind it is.
    if _OF_A_BACKUP in file_system.properties and "DeploymentType" not in _lustre_configuration(file_system):
        return
    throughput = known_number(_lustre_configuration(file_system).get("PerUnitStorageThroughput"))
    if not is_size(size, deployment, storage, throughput):
        yield f"StorageCapacity must be {sizes(deployment, storage, throughput)}, got {size}"


def _throughput_errors(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    sold = THROUGHPUT.get((deployment or "", storage or ""))
    written = _lustre_configuration(file_system).get("PerUnitStorageThroughput")
    value = known_number(written)
    if sold and written is None and _OF_A_BACKUP not in file_system.properties:
        yield f"PerUnitStorageThroughput must be given with {deployment}, one of {_listed(sold)}"
    elif sold and value is not None and value not in sold:
        yield f"PerUnitStorageThroughput must be one of {_listed(sold)} with {deployment}, got {value}"


def _version_errors(file_system: Resource) -> Iterator[str]:
    deployment, _ = _kind(file_system)
    version = _written_version(file_system)
    if deployment == "PERSISTENT_2" and version == _TOO_OLD:
        yield f"FileSystemTypeVersion must be 2.12 or {VERSION} with {deployment}, got {version}"


def _subnet_errors(file_system: Resource) -> Iterator[str]:
    subnets = file_system.properties.get("SubnetIds")
    if isinstance(subnets, list) and len(subnets) > 1 and all(isinstance(each, str) for each in subnets):
        yield f"SubnetIds must be one subnet, got {len(subnets)}"


def _lustre_configuration(file_system: Resource) -> dict[str, object]:
    return dict(mapping(file_system.properties.get("LustreConfiguration")))


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _written_version(file_system: Resource) -> str | None:
    """Return the version that a template writes, which YAML makes a number where it is not quoted."""
    written = file_system.properties.get("FileSystemTypeVersion")
    return f"{written:.2f}" if isinstance(written, float) else known_text(written)


def _version(file_system: Resource) -> str | None:
    """Return the version of Lustre, ``None`` where it is not known."""
    if file_system.properties.get("FileSystemTypeVersion") is not None:
        return _written_version(file_system)
    deployment, _ = _kind(file_system)
    return None if _OF_A_BACKUP in file_system.properties else DEFAULT_VERSIONS.get(deployment or "")


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
    """File system older than what nodes speak.

    The Lustre client of AL2023 does not mount version 2.10, which FSx makes where no other is said: mount.lustre says
    "Invalid argument", and the pod stays in ContainerCreating with its GPUs.

    Fix: Write FileSystemTypeVersion: "2.15".
    """
    for workload, file_system in _mounted(case):
        pools = case.candidate_pools(workload)
        if _version(file_system) == _TOO_OLD and pools and all(each.operating_system == "al2023" for each in pools):
            text = f"mounts {_title(file_system)} of Lustre {_TOO_OLD}, and its nodes run AL2023"
            yield Problem.from_subject(workload, text)


@rule("GPU425", "error", source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html")
def file_system_whose_ports_are_closed(case: Case) -> Iterator[Problem]:
    """File system whose ports are closed.

    FSx does not make a file system whose security groups let no TCP 988 in, and without 1018 to 1023 mounts hang.

    Fix: Let TCP 988 and 1018-1023 in, from the groups of the nodes and from the group itself.
    """
    resources = case.cluster.resources
    for each in _file_systems(case.cluster):
        groups = known_groups(items(each.properties.get("SecurityGroupIds")), resources)
        opened = [rules(group, "Ingress", resources) for group in groups or ()]
        if not opened or None in opened:
            continue
        known = [one for listed in opened for one in listed or ()]
        closed = [first for first, _ in PORTS if not any(covers_port(one, first) for one in known)]
        if closed:
            text = f"none of its security groups lets TCP {' or '.join(map(_range, closed))} in"
            yield Problem(each, text, name=_title(each))


def _range(first: int) -> str:
    last = dict(PORTS)[first]
    return str(first) if first == last else f"{first}-{last}"


@rule("GPU426", "warning", source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/how-it-works-fsx-lustre.html")
def file_system_of_another_zone_than_its_pods(case: Case) -> Iterator[Problem]:
    """File system of another zone than its pods.

    It lies in one zone; what pods of another read and write is slower, and is billed by the GB.

    Fix: Make the file system in a zone of the pool, or nodes in that of the file system.
    """
    resources = case.cluster.resources
    for workload, file_system in _mounted(case):
        listed = items(file_system.properties.get("SubnetIds"))
        subnet = referred(listed[0], resources) if len(listed) == 1 else None
        zone = subnet.properties.get("AvailabilityZone") if subnet is not None else None
        pools = case.candidate_pools(workload)
        if isinstance(zone, str) and pools and all(_is_elsewhere(each, zone) for each in pools):
            text = f"mounts {_title(file_system)} of {zone}, and runs in {', '.join(sorted(_zones(pools)))}"
            yield Problem.from_subject(workload, text)


def _is_elsewhere(pool: Pool, zone: str) -> bool:
    known = bool(pool.zones) and all(isinstance(each, str) for each in pool.zones)
    return known and zone not in pool.zones


def _zones(pools: tuple[Pool, ...]) -> set[str]:
    return {str(zone) for each in pools for zone in each.zones}


@rule("GPU402", "warning", source="https://github.com/kubernetes/kubernetes/issues/132921")
def one_handle_of_two_buckets(case: Case) -> Iterator[Problem]:
    """One handle of two buckets.

    Kubernetes knows a volume by its handle: a pod with both hangs in ContainerCreating, or sees one bucket in both.
    Pods with one of them each run, and the scheduler counts their volumes as one.

    Fix: Give each PersistentVolume a volumeHandle of its own, for example its name.
    """
    seen: dict[str, PersistentVolume] = {}
    for each in case.cluster.volumes:
        if each.is_bucket and isinstance(each.handle, str):
            other = seen.setdefault(each.handle, each)
            if other.title != each.title:
                yield Problem(each.object, f"{each.title}: its handle {each.handle} is that of {other.title}")


@rule("GPU403", "warning", source=f"{_DOCS}/CACHING.md")
def cache_of_a_bucket_without_a_bound(case: Case) -> Iterator[Problem]:
    """Cache of a bucket without a bound.

    It grows on the node's storage with every file that is read, until kubelet evicts pods.

    Fix: Set cacheEmptyDirSizeLimit beside cache: emptyDir.
    """
    for each in case.cluster.volumes:
        attributes, options = each.attributes, each.options
        if not each.is_bucket or attributes is None or options is None:
            continue
        if _is_cached(attributes, options) and _BOUND not in options:
            yield Problem(each.object, f"{each.title}: its cache may fill the node")


@rule("GPU404", "warning", source="https://github.com/awslabs/mountpoint-s3-csi-driver/issues/134")
def bucket_that_the_user_of_a_pod_may_not_read(case: Case) -> Iterator[Problem]:
    """Bucket that the user of a pod may not read.

    Without allow-other the mount answers root alone; the program ends with permission denied.

    Fix: Add allow-other to the volume's mountOptions, and uid and gid where the pod writes.
    """
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        if volume is None or not volume.is_bucket or volume.options is None:
            continue
        user = _user(workload.pod)
        if user is not None and not _OPEN & {*volume.options}:
            yield Problem.from_subject(workload, f"runs as user {user}, and {volume.title} lets root alone read")


@rule("GPU414", "error", source=f"{_DOCS}/CONFIGURATION.md")
def bucket_of_a_service_account_without_a_role(case: Case) -> Iterator[Problem]:
    """Bucket of a service account without a role.

    With authenticationSource: pod the driver mounts as the pod's service account, and with no role of driver or node
    instead: the mount is denied, and the pod stays in ContainerCreating with its GPUs.

    Fix: Associate a role with the service account by EKS Pod Identity, or annotate the account with one for IRSA.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        volume, account = claim.volume, pod_service_account(workload)
        if not cluster.whole or volume is None or not _is_mounted_by_pod(volume) or account is None:
            continue
        answer = has_role(account, cluster)
        if answer is not Answer.YES:
            text = f"no role is given to service account {'/'.join(account)}, which mounts {volume.title}"
            yield Problem.from_subject(workload, text, unknown=answer is Answer.UNKNOWN)


def _is_mounted_by_pod(volume: PersistentVolume) -> bool:
    by_pod = volume.is_bucket and (volume.attributes or {}).get("authenticationSource") == "pod"
    return by_pod and _ANONYMOUS not in (volume.options or ())


def _user(pod: Pod) -> int | None:
    """Return a user that a pod runs as, when none of its containers is root's and no group of files is set."""
    whole = mapping(pod.written.get("securityContext"))
    own = [mapping(each.get("securityContext")) for each in mappings(pod.written.get("containers"))]
    users = [each.get("runAsUser", whole.get("runAsUser")) for each in own]
    known = [each for each in users if isinstance(each, int) and each > 0]
    # The driver opens the mount for fsGroup by itself.
    return known[0] if known and len(known) == len(users) and whole.get("fsGroup") is None else None


def _is_cached(attributes: Mapping[str, Any], options: tuple[str, ...]) -> bool:
    """Whether there is a cache on the node without a bound; older volumes ask for it by a mount option."""
    kind = attributes.get("cache")
    asked = kind == "emptyDir" or (kind is None and _CACHE in options)
    return asked and not attributes.get("cacheEmptyDirSizeLimit")


@rule("GPU320", "error", source=_VOLUMES)
def claim_of_storage_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Claim of storage that does not exist.

    The pod stays Pending until somebody makes the PersistentVolumeClaim in its namespace. Others may do so beside the
    input: it is certain of a name that can only be a slip for one that is there.

    Fix: Create the claim in the pod's namespace, or correct the name.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        if claim.name is None or claim.spec is not None or is_stateful_set_claim(claim.name, workload, cluster):
            continue
        name, beside = f"{workload.namespace}/{claim.name}", _claims_beside(workload, cluster)
        if cluster.whole:
            hint = did_you_mean(claim.name, beside) or _elsewhere(claim.name, cluster)
            text = f"PersistentVolumeClaim {name} does not exist{hint}"
            yield Problem.from_subject(
                workload, text, unknown=not cluster.sees_objects or not is_slip_for_one(claim.name, beside)
            )
        elif beside:
            # Of a cluster that is not in the input more may be there.
            text = f"PersistentVolumeClaim {name} is not among those of its namespace, {', '.join(beside)}"
            yield Problem.from_subject(workload, f"{text}{did_you_mean(claim.name, beside)}", unknown=True)


def _claims_beside(workload: Workload, cluster: Cluster) -> list[str]:
    return sorted(name for namespace, name in cluster.volume_claims if namespace == workload.namespace)


def _elsewhere(name: str, cluster: Cluster) -> str:
    spaces = [each.namespace for each in cluster.objects_of_kind("PersistentVolumeClaim") if each.name == name]
    return f"; namespace {spaces[-1]} has one" if spaces else ""


@rule("GPU322", "error", source=_VOLUMES)
def disk_of_one_node_for_pods_on_several(case: Case) -> Iterator[Problem]:
    """Disk of one node for pods on several.

    An EBS volume is attached to one node; pods on others hang in ContainerCreating with a Multi-Attach error.

    Fix: Give each pod a claim of its own by a StatefulSet, or share files by EFS, FSx or S3.
    """
    for workload, claim in case.gpu_claims:
        replicas = workload.replicas
        if claim.name is None or claim.spec is None or replicas is None or replicas < 2 or workload.takes_turns:
            continue
        modes = claim.modes
        if modes == [_ONE_POD]:
            # Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/volumerestrictions/
            text = f"{replicas} pods share {claim.title}, which is {_ONE_POD}: a second one stays Pending"
            yield Problem.from_subject(workload, text)
            continue
        if not modes or any(isinstance(each, Unknown) or each not in _ONE_NODE for each in modes):
            continue
        if not claim.is_ebs:
            continue
        together = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        apart = bool(together) and all(each is not None and each < replicas for each in together)
        text = f"{replicas} pods share {claim.title}, which is {' and '.join(map(str, modes))}"
        yield Problem.from_subject(workload, text, unknown=not apart)


@rule("GPU323", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2178")
def access_mode_that_the_driver_does_not_have(case: Case) -> Iterator[Problem]:
    """Access mode that the driver does not have.

    The driver refuses to make the volume; EBS takes ReadWriteMany for raw block devices only, ReadOnlyMany never.

    Fix: Claim ReadWriteOnce, or a class of EFS, FSx or S3.
    """
    for workload, claim in case.gpu_claims:
        if claim.spec is None or not claim.is_ebs:
            continue
        block = claim.spec.get("volumeMode") == "Block"
        wrong = [each for each in claim.modes if each == "ReadOnlyMany" or (each == "ReadWriteMany" and not block)]
        if wrong:
            yield Problem.from_subject(
                workload, f"{claim.title} wants {' and '.join(wrong)} of an EBS volume with a file system"
            )


@rule("GPU325", "error", source=_VOLUMES)
def claim_that_its_volume_does_not_meet(case: Case) -> Iterator[Problem]:
    """Claim that its volume does not meet.

    Kubernetes does not bind the two, and the pod stays Pending.

    Fix: Give claim and volume the same class and access modes, and the volume at least the size of the claim.
    """
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        if claim.spec is None or volume is None:
            continue
        for why in _differs(claim, volume, workload):
            yield Problem.from_subject(workload, f"{claim.title} is not bound to {volume.title}: {why}")


def _differs(claim: Claimed, volume: PersistentVolume, workload: Workload) -> Iterator[str]:
    ours, theirs = (claim.spec or {}).get("storageClassName"), volume.class_name
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        yield f"it is of class {theirs or 'none'}, the claim of {ours or 'none'}"
    offered = volume.object.spec.get("accessModes")
    if isinstance(offered, list) and (lacking := [each for each in claim.modes if each not in offered]):
        yield f"it does not offer {', '.join(map(str, lacking))}"
    has = quantity("memory", dig(volume.object.spec, "capacity", "storage"))
    if claim.size is not None and has is not None and claim.size > has:
        yield "the claim asks for more than its capacity"
    name, space = (known_text(volume.claim.get(key)) for key in ("name", "namespace"))
    space = space or workload.namespace
    if name and claim.name and (space, name) != (workload.namespace, claim.name):
        yield f"it is kept for claim {space}/{name}"


@rule("GPU326", "warning", source=_VOLUMES)
def one_disk_under_two_volumes(case: Case) -> Iterator[Problem]:
    """One disk under two volumes.

    A disk is attached to one node; a pod of the other volume hangs, or both write over each other.

    Fix: Make a disk for each volume, or let both pods use one claim on one node.
    """
    seen: dict[str, PersistentVolume] = {}
    for volume in case.cluster.volumes:
        handle = volume.handle
        if not isinstance(handle, str) or volume.driver not in EBS_PROVISIONERS:
            continue
        if handle in seen:
            yield Problem(volume.object, f"{volume.title}: its disk {handle} is that of {seen[handle].title}")
        seen.setdefault(handle, volume)
