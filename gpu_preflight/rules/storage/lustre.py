"""File systems of FSx for Lustre: what FSx makes, and what nodes mount."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.lustre import (
    DEFAULT_TYPE,
    DEFAULT_VERSIONS,
    PORTS,
    THROUGHPUT,
    VERSION,
    is_size,
    sizes,
)
from gpu_facts.storage import FSX
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import volume_of
from gpu_preflight.cluster.references import referred
from gpu_preflight.cluster.security_groups import covers_port, known_groups, rules
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, items, known_number, known_text, mapping
from gpu_preflight.rules.rule import Problem, rule

_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html"
_TYPE = "AWS::FSx::FileSystem"
# Sizes of the newest kind of disk have no steps, and its throughput is said otherwise.
_ELASTIC = "INTELLIGENT_TIERING"
# Of a file system that is made of a backup FSx knows all that is not said.
_OF_A_BACKUP = "BackupId"
_TOO_OLD = "2.10"


def _file_systems(cluster: Cluster) -> Iterator[Resource]:
    for each in cluster.resources_of(_TYPE):
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
        for why in (*_of_size(each), *_of_throughput(each), *_of_version(each), *_of_subnets(each)):
            yield Problem(each, f"{_title(each)}: {why}")


def _of_size(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    size = known_number(file_system.properties.get("StorageCapacity"))
    if size is None or deployment is None or storage is None or storage == _ELASTIC:
        return
    # A backup says itself of what kind it is.
    if _OF_A_BACKUP in file_system.properties and "DeploymentType" not in _told(file_system):
        return
    throughput = known_number(_told(file_system).get("PerUnitStorageThroughput"))
    if not is_size(size, deployment, storage, throughput):
        yield f"StorageCapacity must be {sizes(deployment, storage, throughput)}, got {size}"


def _of_throughput(file_system: Resource) -> Iterator[str]:
    deployment, storage = _kind(file_system)
    sold = THROUGHPUT.get((deployment or "", storage or ""))
    written = _told(file_system).get("PerUnitStorageThroughput")
    value = known_number(written)
    if sold and written is None and _OF_A_BACKUP not in file_system.properties:
        yield f"PerUnitStorageThroughput must be given with {deployment}, one of {_listed(sold)}"
    elif sold and value is not None and value not in sold:
        yield f"PerUnitStorageThroughput must be one of {_listed(sold)} with {deployment}, got {value}"


def _of_version(file_system: Resource) -> Iterator[str]:
    deployment, _ = _kind(file_system)
    version = _written_version(file_system)
    if deployment == "PERSISTENT_2" and version == _TOO_OLD:
        yield f"FileSystemTypeVersion must be 2.12 or {VERSION} with {deployment}, got {version}"


def _of_subnets(file_system: Resource) -> Iterator[str]:
    subnets = file_system.properties.get("SubnetIds")
    if isinstance(subnets, list) and len(subnets) > 1 and all(isinstance(each, str) for each in subnets):
        yield f"SubnetIds must be one subnet, got {len(subnets)}"


def _told(file_system: Resource) -> dict[str, object]:
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
        volume = volume_of(claim, case.cluster)
        csi = mapping(volume.spec.get("csi")) if volume is not None else {}
        found = referred(csi.get("volumeHandle"), resources) if csi.get("driver") == FSX else None
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
        pools = case.pools_open_to(workload)
        if _version(file_system) == _TOO_OLD and pools and all(each.operating_system == "al2023" for each in pools):
            text = f"mounts {_title(file_system)} of Lustre {_TOO_OLD}, and its nodes run AL2023"
            yield Problem.of(workload, text)


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
            yield Problem(each, f"{_title(each)}: {text}")


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
        pools = case.pools_open_to(workload)
        if isinstance(zone, str) and pools and all(_is_elsewhere(each, zone) for each in pools):
            text = f"mounts {_title(file_system)} of {zone}, and runs in {', '.join(sorted(_zones(pools)))}"
            yield Problem.of(workload, text)


def _is_elsewhere(pool: Pool, zone: str) -> bool:
    known = bool(pool.zones) and all(isinstance(each, str) for each in pool.zones)
    return known and zone not in pool.zones


def _zones(pools: tuple[Pool, ...]) -> set[str]:
    return {str(zone) for each in pools for zone in each.zones}
