"""Storage that GPU pods claim and never get."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from gpu_constructs.facts.quantities import quantity
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.objects.storage import (
    BROUGHT_BY,
    EBS_OF_AUTO_MODE,
    EBS_PROVISIONERS,
    Claimed,
    claimed,
    made_by_a_stateful_set,
    storage_class,
    volume_of,
)
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.node.nodes import minor
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import Unknown, dig, is_expression, is_true, known_text, mapping
from gpu_constructs.preflight.rules.rule import Problem, rule

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_CLASSES = "https://kubernetes.io/docs/concepts/storage/storage-classes/"
# EKS makes it in every cluster, and since 1.30 no longer makes it the default.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html (2026-11)
_OF_EKS = "gp2"
_WITHOUT_DEFAULT = (1, 30)
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_EBS_TYPES = ("gp2", "gp3", "io1", "io2", "sc1", "st1", "standard", "sbg1", "sbp1")
_ONE_POD = "ReadWriteOncePod"
_ONE_NODE = ("ReadWriteOnce", _ONE_POD)
# Provisioners that no driver stands behind: volumes are made by hand.
_BY_HAND = ("kubernetes.io/no-provisioner",)


def _claims(case: Case) -> Iterator[tuple[Workload, Claimed]]:
    for workload in case.gpu_workloads:
        for claim in claimed(workload, case.cluster):
            yield workload, claim


@rule("GPU320", "error", source=_VOLUMES)
def claim_of_storage_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Claim of storage that does not exist.

    The pod stays Pending until somebody makes the PersistentVolumeClaim in its namespace.

    Fix: Create the claim in the pod's namespace, or correct the name.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    elsewhere = {each.name: each.namespace for each in cluster.of_kind("PersistentVolumeClaim")}
    for workload, claim in _claims(case):
        if claim.name and claim.spec is None and not made_by_a_stateful_set(claim.name, workload, cluster):
            hint = f"; namespace {elsewhere[claim.name]} has one" if claim.name in elsewhere else ""
            text = f"PersistentVolumeClaim {workload.namespace}/{claim.name} does not exist{hint}"
            yield Problem.of(workload, text, unknown=not cluster.sees_objects)


@rule("GPU321", "error", source=_CLASSES)
def storage_class_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """StorageClass that does not exist.

    Nothing makes the volume of the claim, and its pod stays Pending.

    Fix: Create the StorageClass, name one that is there, or name the volume in the claim.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    hidden = not cluster.sees_objects
    classes = cluster.of_kind("StorageClass")
    for workload, claim in _claims(case):
        spec = claim.spec
        if spec is None or spec.get("volumeName") or spec.get("selector") or spec.get("dataSource"):
            continue
        name = spec.get("storageClassName")
        if name is None and not _has_default(cluster, classes):
            text = f"{claim.title} names no StorageClass, and Kubernetes {cluster.version} on EKS has no default one"
            yield Problem.of(workload, text, unknown=hidden)
        elif isinstance(name, str) and name and storage_class(claim, cluster) is None and not _may_be(name, cluster):
            near = get_close_matches(name, [each.name for each in classes], 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            text = f"{claim.title} is of StorageClass {name}, which does not exist{hint}"
            yield Problem.of(workload, text, unknown=hidden)


def _has_default(cluster: Cluster, classes: list[Object]) -> bool:
    """Whether a class is the default, or may be: add-ons and charts make one where their values say so."""
    if cluster.version is None or minor(cluster.version) < _WITHOUT_DEFAULT:
        return True
    marked = any(is_true(str(each.annotations.get(key))) for each in classes for key in _DEFAULT)
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    return marked or any("storageclass" in str(each).lower() for each in values)


def _may_be(name: str, cluster: Cluster) -> bool:
    """Whether something may make a class that is not in the input, or volumes of its name stand there already."""
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    volumes = cluster.of_kind("PersistentVolume")
    by_hand = any(each.spec.get("storageClassName") == name for each in volumes)
    return name == _OF_EKS or by_hand or any(name in str(each) for each in values)


@rule("GPU322", "error", source=_VOLUMES)
def disk_of_one_node_for_pods_on_several(case: Case) -> Iterator[Problem]:
    """Disk of one node for pods on several.

    An EBS volume is attached to one node; pods on others hang in ContainerCreating with a Multi-Attach error.

    Fix: Give each pod a claim of its own by a StatefulSet, or share files by EFS, FSx or S3.
    """
    for workload, claim in _claims(case):
        replicas = workload.replicas
        if claim.name is None or claim.spec is None or replicas is None or replicas < 2 or workload.takes_turns:
            continue
        modes = claim.modes
        if modes == [_ONE_POD]:
            # Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/volumerestrictions/
            text = f"{replicas} pods share {claim.title}, which is {_ONE_POD}: a second one stays Pending"
            yield Problem.of(workload, text)
            continue
        if not modes or any(isinstance(each, Unknown) or each not in _ONE_NODE for each in modes):
            continue
        if not _on_a_disk(claim, case.cluster):
            continue
        together = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        apart = bool(together) and all(each is not None and each < replicas for each in together)
        text = f"{replicas} pods share {claim.title}, which is {' and '.join(map(str, modes))}"
        yield Problem.of(workload, text, unknown=not apart)


def _on_a_disk(claim: Claimed, cluster: Cluster) -> bool:
    storage, volume = storage_class(claim, cluster), volume_of(claim, cluster)
    made = (
        storage.content.get("provisioner") if storage else dig(dict(volume.spec), "csi", "driver") if volume else None
    )
    return made in EBS_PROVISIONERS


@rule("GPU323", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2178")
def access_mode_that_the_driver_does_not_have(case: Case) -> Iterator[Problem]:
    """Access mode that the driver does not have.

    The driver refuses to make the volume; EBS takes ReadWriteMany for raw block devices only, ReadOnlyMany never.

    Fix: Claim ReadWriteOnce, or a class of EFS, FSx or S3.
    """
    cluster = case.cluster
    for workload, claim in _claims(case):
        if claim.spec is None or not _on_a_disk(claim, cluster):
            continue
        block = claim.spec.get("volumeMode") == "Block"
        wrong = [each for each in claim.modes if each == "ReadOnlyMany" or (each == "ReadWriteMany" and not block)]
        if wrong:
            yield Problem.of(workload, f"{claim.title} wants {' and '.join(wrong)} of an EBS volume with a file system")


@rule("GPU324", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/storage.html")
def storage_class_whose_driver_is_absent(case: Case) -> Iterator[Problem]:
    """StorageClass whose driver is absent.

    Nobody makes the volume, and the pod stays Pending.

    Fix: Install the driver's add-on, or name the provisioner of one that is there.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for workload, claim in _claims(case):
        volume, storage = volume_of(claim, cluster), storage_class(claim, cluster)
        written = dig(dict(volume.spec), "csi", "driver") if volume else storage and storage.content.get("provisioner")
        made, source = known_text(written), volume or storage
        if source is None or made is None or made in _BY_HAND or _runs(made, cluster):
            continue
        known = [*BROUGHT_BY, EBS_OF_AUTO_MODE]
        near = get_close_matches(made, known, 1, 0.8) if made not in known else []
        said = f"{claim.title} is of {source.kind} {source.name}, whose driver {made}"
        if made == EBS_OF_AUTO_MODE:
            yield Problem.of(workload, f"{said} is that of EKS Auto Mode, which is off")
        elif near:
            yield Problem.of(workload, f"{said} does not exist; did you mean '{near[0]}'?")
        else:
            brought = BROUGHT_BY.get(made)
            what = f"nothing installs; add-on {brought} brings it" if brought else "nothing here installs"
            yield Problem.of(workload, f"{said} {what}", unknown=brought is None or not cluster.sees_objects)


def _runs(driver: str, cluster: Cluster) -> bool:
    if driver == EBS_OF_AUTO_MODE:
        return cluster.auto_mode
    brought = BROUGHT_BY.get(driver)
    listed = any(each.name == driver for each in cluster.of_kind("CSIDriver"))
    return listed or (brought is not None and _installs(brought, cluster))


def _installs(name: str, cluster: Cluster) -> bool:
    """Whether an add-on, a chart, Argo CD, Flux or a manifest brings a driver."""
    node = name.removeprefix("aws-").replace("csi-driver", "csi-node").replace("mountpoint-", "")
    daemons = any(each.name.startswith(node) for each in cluster.daemon_sets)
    named = any(name in str(each.content.get("spec")) for each in cluster.of_kind("Application", "HelmRelease"))
    return bool(cluster.addon(name) or cluster.chart(name)) or daemons or named


@rule("GPU396", "error", source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html")
def storage_class_of_a_volume_type_that_ebs_does_not_have(case: Case) -> Iterator[Problem]:
    """StorageClass of a volume type that EBS does not have.

    The driver refuses to make the volume, and the pod stays Pending.

    Fix: Write gp3.
    """
    for workload, claim in _claims(case):
        storage = storage_class(claim, case.cluster)
        if storage is None or storage.content.get("provisioner") not in EBS_PROVISIONERS:
            continue
        written = dig(dict(storage.content), "parameters", "type")
        if isinstance(written, str) and written.lower() not in _EBS_TYPES and not is_expression(written):
            text = f"{claim.title} is of StorageClass {storage.name}, and EBS has no volume type {written}"
            yield Problem.of(workload, text)


@rule("GPU325", "error", source=_VOLUMES)
def claim_that_its_volume_does_not_meet(case: Case) -> Iterator[Problem]:
    """Claim that its volume does not meet.

    Kubernetes does not bind the two, and the pod stays Pending.

    Fix: Give claim and volume the same class and access modes, and the volume at least the size of the claim.
    """
    for workload, claim in _claims(case):
        volume = volume_of(claim, case.cluster)
        if claim.spec is None or volume is None:
            continue
        for why in _differs(claim, volume, workload):
            yield Problem.of(workload, f"{claim.title} is not bound to PersistentVolume {volume.name}: {why}")


def _differs(claim: Claimed, volume: Object, workload: Workload) -> Iterator[str]:
    spec = mapping(claim.spec)
    ours, theirs = spec.get("storageClassName"), volume.spec.get("storageClassName", "")
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        yield f"it is of class {theirs or 'none'}, the claim of {ours or 'none'}"
    offered = volume.spec.get("accessModes")
    if isinstance(offered, list) and (lacking := [each for each in claim.modes if each not in offered]):
        yield f"it does not offer {', '.join(map(str, lacking))}"
    wants = quantity("memory", dig(spec, "resources", "requests", "storage"))
    has = quantity("memory", dig(dict(volume.spec), "capacity", "storage"))
    if wants is not None and has is not None and wants > has:
        yield "the claim asks for more than its capacity"
    bound = mapping(volume.spec.get("claimRef"))
    name, space = known_text(bound.get("name")), known_text(bound.get("namespace")) or workload.namespace
    if name and claim.name and (space, name) != (workload.namespace, claim.name):
        yield f"it is kept for claim {space}/{name}"


@rule("GPU326", "warning", source=_VOLUMES)
def one_disk_under_two_volumes(case: Case) -> Iterator[Problem]:
    """One disk under two volumes.

    A disk is attached to one node; a pod of the other volume hangs, or both write over each other.

    Fix: Make a disk for each volume, or let both pods use one claim on one node.
    """
    seen: dict[str, Object] = {}
    for volume in case.cluster.of_kind("PersistentVolume"):
        handle = known_text(dig(dict(volume.spec), "csi", "volumeHandle"))
        if handle is None or dig(dict(volume.spec), "csi", "driver") not in EBS_PROVISIONERS:
            continue
        if handle in seen:
            text = f"PersistentVolume {volume.name}: its disk {handle} is that of PersistentVolume {seen[handle].name}"
            yield Problem(volume, text)
        seen.setdefault(handle, volume)
